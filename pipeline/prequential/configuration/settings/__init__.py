"""What is configured: frozen objects with a default for everything."""
