"""Two configurations side by side: what differs, and what happens to the state that there is."""
