"""Names and their rows, and what is evaluated of them."""
