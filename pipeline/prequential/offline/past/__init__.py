"""Outcomes of the past by sequence, and streams like them."""
