"""What `prequential watch` knows of the output topics, and how it shows that in a terminal."""
