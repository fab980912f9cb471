"""The settings: frozen objects with a default for everything."""
