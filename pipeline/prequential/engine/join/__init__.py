"""The join of labels and predictions."""
