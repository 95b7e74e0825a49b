"""tightrope: stochastic optimisation with expectation constraints.

Names are loaded when they are first used: `tightrope --help` needs no JAX, and a run needs no scikit-learn.
"""

# ruff: noqa: F405 (the names are those of core)

import typing

if typing.TYPE_CHECKING:
    from tightrope._compilation_cache import compilation_cache
    from tightrope.core import *  # noqa: F403
    from tightrope.estimators import (
        ConstrainedClassifier,
        FairLogisticRegression,
        StructuredMatrixCompletion,
        fairness_report,
    )
    from tightrope.learn.fairness import metrics

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
    "FairLogisticRegression",
    "Generator",
    "GroupBall",
    "Info",
    "L1Ball",
    "L2Ball",
    "LinfBall",
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
    "Spectraplex",
    "SplitCSOA",
    "State",
    "Status",
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


def __getattr__(name: str) -> typing.Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("ConstrainedClassifier", "FairLogisticRegression", "StructuredMatrixCompletion", "fairness_report"):
        from tightrope import estimators as home
    elif name == "compilation_cache":  # called before JAX is loaded, it can also quieten it
        from tightrope import _compilation_cache as home
    elif name == "metrics":
        from tightrope.learn import fairness as home
    else:
        from tightrope import core as home
    globals()[name] = getattr(home, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
