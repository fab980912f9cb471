"""Outcomes that are kept for who looks back."""
