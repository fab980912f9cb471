"""The outcomes of predictions and their delays: readers of the log of events."""
