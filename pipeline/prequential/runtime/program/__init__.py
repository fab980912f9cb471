"""What every program does: compiled loops at its start, its version, an orderly end."""
