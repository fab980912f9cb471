"""The details that messages report of an estimator, beyond its measures."""
