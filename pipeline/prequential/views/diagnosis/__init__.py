"""Facts of a shard that may be mistakes, and findings about them."""
