"""The engine on files, and what it found."""
