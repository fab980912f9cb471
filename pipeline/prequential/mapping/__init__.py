"""Where in anybody's records our fields are, and records made of them."""
