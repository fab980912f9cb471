"""Answers for scripts and agents, as JSON and plain text: the same words as on the pages."""
