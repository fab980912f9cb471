"""Settings with their defaults, reading them from YAML, and what a change of them does to state."""
