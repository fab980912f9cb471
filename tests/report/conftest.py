"""Messages and the browser are those of the dashboard's tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "dashboard"))

from tests.dashboard.conftest import chromium, page

__all__ = ["chromium", "page"]
