"""Topics of any shape into the three inputs: an agent over batches, whose records go out in transactions."""
