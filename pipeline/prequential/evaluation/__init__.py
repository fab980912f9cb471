"""Evaluation in a notebook or in your own program: the same engine and the same numbers, without Kafka.

>>> from prequential.evaluation import evaluate
>>> predictions = [{"instance_id": i, "y_pred": "UP"} for i in range(100)]
>>> labels = [{"instance_id": i, "y_true": "UP" if i % 4 else "DOWN"} for i in range(100)]
>>> result = evaluate(predictions, labels, estimators=["all", "window:50"])
>>> result.measures("accuracy", estimator="all")["model"]
0.75

`evaluate` takes complete tables; `Evaluator` takes one prediction and one label at a time.
"""

from prequential.evaluation.archived import ArchivedResult, read_archive
from prequential.evaluation.evaluating import evaluate
from prequential.evaluation.evaluator import Evaluator
from prequential.evaluation.looking_back import Backtest, Calibration
from prequential.evaluation.result import Result
from prequential.evaluation.scores import Residuals, Scores
from prequential.evaluation.settings import Settings
from prequential.evaluation.shown import Table
from prequential.evaluation.values import PeriodTable
from prequential.views.svg import Plot

__all__ = [
    "ArchivedResult",
    "Backtest",
    "Calibration",
    "Evaluator",
    "PeriodTable",
    "Plot",
    "Residuals",
    "Result",
    "Scores",
    "Settings",
    "Table",
    "evaluate",
    "read_archive",
]
