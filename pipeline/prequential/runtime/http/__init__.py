"""Answers over HTTP: who may ask, what is served, in which form."""
