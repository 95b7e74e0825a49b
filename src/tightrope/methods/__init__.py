"""The methods, one file each, and their registry: one line each."""

from tightrope.methods.base import Cost, Info, Method, dual_step, gradients_used, steps_within
from tightrope.methods.csoa import CSOA
from tightrope.methods.fwcsoa import FWCSOA
from tightrope.methods.goco import GOCO
from tightrope.methods.svrfcsoa import SVRFCSOA
from tightrope.methods.svrgcsoa import SVRGCSOA

METHODS: dict[str, type[Method]] = {
    "csoa": CSOA,
    "fw-csoa": FWCSOA,
    "g-oco": GOCO,
    "svrf-csoa": SVRFCSOA,
    "svrg-csoa": SVRGCSOA,
}

__all__ = [
    "CSOA",
    "FWCSOA",
    "GOCO",
    "METHODS",
    "SVRFCSOA",
    "SVRGCSOA",
    "Cost",
    "Info",
    "Method",
    "dual_step",
    "gradients_used",
    "steps_within",
]
