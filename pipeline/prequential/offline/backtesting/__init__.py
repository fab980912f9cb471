"""Backtests of detectors: the alarms that they would have raised on the past, and how accurate those are."""
