"""Rows that the loops read and write: records, streams, outcomes, events."""
