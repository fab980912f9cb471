"""State as bytes, and back, also under another configuration."""
