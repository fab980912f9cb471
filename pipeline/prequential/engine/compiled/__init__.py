"""The basis of compiled loops: the compiler, its cache, tables, numbers, ids."""
