"""Live evaluation of streaming predictions: a pure core, and a thin shell of Faust around it."""

import os

# No matrix is multiplied anywhere here: BLAS's threads would only wait, and busily.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
