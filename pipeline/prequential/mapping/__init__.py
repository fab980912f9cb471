"""Map the records of any source to input records."""
