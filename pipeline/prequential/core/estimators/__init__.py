"""Estimators: what remembers the outcomes of sequences, a file for each kind."""
