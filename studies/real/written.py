"""cvxpy under its usual name, unannotated: its annotations refuse much of what it takes."""

import importlib
from typing import Any

cp: Any = importlib.import_module("cvxpy")
