"""Outcomes by the time of their predictions: cohorts, what waits for them, how much it depends."""
