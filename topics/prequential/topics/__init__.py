"""What crosses the wire: topics, messages, and the clients that carry them."""
