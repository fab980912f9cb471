"""The history of the output topics in Parquet: written exactly once by id, and read again."""
