"""What a finished replay found, as one HTML file that can be mailed, and as Markdown for a comment in CI.

`write_report` is all that most need:

>>> from prequential.views.report import write_report
>>> message = {
...     "stream": "elec2", "partition": 0, "model": "nb", "segment": None, "stage": "final",
...     "estimator": "all", "n": 2, "outcomes": 2, "ts": 0, "measures": {"accuracy": 0.5}, "undefined": {},
...     "counts": {},
... }
>>> write_report("/dev/null", [message], title="nb on elec2") < 2_000_000
True
"""

from prequential.views.dashboard.pair import Promotion
from prequential.views.report.html import Report, write_report
from prequential.views.report.markdown import Challenge, Condition, markdown, parse_condition

__all__ = ["Challenge", "Condition", "Promotion", "Report", "markdown", "parse_condition", "write_report"]
