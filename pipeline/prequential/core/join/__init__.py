"""Labels meet predictions."""
