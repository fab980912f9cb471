"""Files of rows as sources of records: CSV, JSON lines of any shape, Parquet, Arrow."""
