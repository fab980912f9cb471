"""Configuration files: reading them, and what a change of one does to state."""
