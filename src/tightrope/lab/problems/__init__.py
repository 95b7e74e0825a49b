"""Problems whose solutions are known exactly: what methods are measured on."""

from collections.abc import Callable

from tightrope.lab.problems.exact import EXACT
from tightrope.lab.problems.hard import ill_scaled, infeasible, many
from tightrope.lab.problems.learning import fair_logistic, neyman_pearson
from tightrope.lab.problems.matrices import completion, spectraplex
from tightrope.lab.problems.nested import NESTED
from tightrope.lab.problems.scenarios import portfolio, power
from tightrope.lab.problems.solved import Constants, Solved
from tightrope.lab.problems.vectors import box_qcqp, least_squares

PROBLEMS: dict[str, Callable[[], Solved]] = EXACT | {
    "least-squares": least_squares,
    "box-qcqp": box_qcqp,
    "neyman-pearson": neyman_pearson,
    "fair-logistic": fair_logistic,
    "portfolio": portfolio,
    "power": power,
    "spectraplex": spectraplex,
    "completion": completion,
    "many": many,
    "ill-scaled": ill_scaled,
    "infeasible": infeasible,
}
"""All problems with known solutions, by name; `EXACT` are the four smallest, on which every method is measured.
`NESTED` are those for the few methods that take functions of means."""

__all__ = ["EXACT", "NESTED", "PROBLEMS", "Constants", "Solved"]
