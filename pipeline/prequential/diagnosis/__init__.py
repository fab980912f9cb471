"""What a shard knows that may look wrong, and what it means."""
