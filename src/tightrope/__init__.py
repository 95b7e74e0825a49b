"""tightrope: stochastic optimisation with expectation constraints.

Names are loaded when they are first used: `tightrope --help` needs no JAX, and a run needs no scikit-learn.
"""

# ruff: noqa: F405 (the names are those of core)

import importlib
import typing

if typing.TYPE_CHECKING:
    from tightrope import theory
    from tightrope._compilation_cache import compilation_cache
    from tightrope.core import *  # noqa: F403
    from tightrope.estimators import (
        ConstrainedClassifier,
        FairLogisticRegression,
        StructuredMatrixCompletion,
        fairness_report,
    )
    from tightrope.lab.methods.primal_dual.goco import GOCO
    from tightrope.learn.fairness import metrics
    from tightrope.methods import METHODS

__version__ = "0.2.0"

__all__ = [
    "CSCGD",
    "CSOA",
    "FWCSOA",
    "GOCO",
    "METHODS",
    "SETS",
    "SQP",
    "SVRFCSOA",
    "SVRGCSOA",
    "Box",
    "Bundle",
    "Certificate",
    "CheckpointError",
    "ConstrainedClassifier",
    "ConvexSet",
    "Cost",
    "Facts",
    "FairLogisticRegression",
    "Generator",
    "GroupBall",
    "Info",
    "L1Ball",
    "L2Ball",
    "LinfBall",
    "Look",
    "Method",
    "NuclearBall",
    "Online",
    "Parquet",
    "Polytope",
    "Problem",
    "Product",
    "Refreshing",
    "Result",
    "Rows",
    "Simplex",
    "Solver",
    "Spectraplex",
    "SplitCSOA",
    "State",
    "Status",
    "Steps",
    "Stream",
    "StructuredMatrixCompletion",
    "certify",
    "check_problem",
    "compilation_cache",
    "conditional_mean_at_most",
    "dual_step",
    "entropic_risk_at_most",
    "equality",
    "fairness_report",
    "lift_cvar",
    "logistic_loss",
    "metrics",
    "minimize",
    "penalised",
    "pytree",
    "ratio_at_most",
    "stack",
    "static",
    "sweep",
    "theory",
    "tree",
    "two_sided",
    "variance_at_most",
]


_HOMES = {
    "tightrope.estimators": (
        "ConstrainedClassifier",
        "FairLogisticRegression",
        "StructuredMatrixCompletion",
        "fairness_report",
    ),
    "tightrope._compilation_cache": ("compilation_cache",),  # called before JAX is loaded, it can also quieten it
    "tightrope.learn.fairness": ("metrics",),
    "tightrope.lab.methods.primal_dual.goco": ("GOCO",),
    "tightrope.methods": ("METHODS",),
}
"""Where names live that are not those of core."""
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> typing.Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "theory":  # a module beside this one, and no name in another
        return importlib.import_module(f"{__name__}.{name}")
    globals()[name] = getattr(importlib.import_module(_HOME.get(name, "tightrope.core")), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
