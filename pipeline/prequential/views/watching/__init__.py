"""The program `prequential watch`: read the output topics, and show their content in a terminal."""
