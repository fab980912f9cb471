"""Records in order of time, as rows."""
