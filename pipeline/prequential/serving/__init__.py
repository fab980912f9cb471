"""For model servers: what helps a model where labels depend on each other, or are long in coming."""
