"""The engine: records in, outcomes, estimates, alarms and messages out; pure loops over tables."""
