"""What became of predictions, and when: readers of the log of events."""
