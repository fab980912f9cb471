"""Collect the messages of the output topics, or of files, and serve them as a web page."""
