"""Thresholds of detectors for a budget of false alarms."""
