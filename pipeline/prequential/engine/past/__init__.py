"""Past outcomes, kept for tools that review sequences."""
