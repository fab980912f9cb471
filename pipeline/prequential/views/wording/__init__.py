"""Comparisons and incidents in words."""
