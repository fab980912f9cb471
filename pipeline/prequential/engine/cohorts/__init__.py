"""Outcomes by the time of their predictions: cohorts, values that wait for them, and their dependence."""
