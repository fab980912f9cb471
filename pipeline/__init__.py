"""Live evaluation of streaming predictions: a pure core, and a thin shell of Faust around it."""

__version__ = "0.1.0"
