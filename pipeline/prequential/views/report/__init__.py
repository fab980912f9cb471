"""What a finished replay found, as one HTML file that can be mailed, and as Markdown for a comment in CI."""

from prequential.views.dashboard.pair import Promotion
from prequential.views.report.html import Report
from prequential.views.report.markdown import Challenge, Condition, markdown, parse_condition

__all__ = ["Challenge", "Condition", "Promotion", "Report", "markdown", "parse_condition"]
