"""What `prequential demo` shows: a labelled stream with a drift, models on it, and the screen."""
