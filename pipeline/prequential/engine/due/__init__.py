"""What is due: decides which messages are due, marks their subjects as reported, and announces facts."""
