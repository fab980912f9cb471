"""What is said, and when it is due."""
