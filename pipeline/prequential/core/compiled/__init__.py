"""What compiled loops are made of: tables, the cache, numbers, ids."""
