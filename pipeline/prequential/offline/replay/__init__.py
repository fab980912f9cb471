"""Run the engine on files, and summarise the results."""
