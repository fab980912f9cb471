"""Messages, and when they are due."""
