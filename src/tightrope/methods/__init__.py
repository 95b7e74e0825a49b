"""The methods, one file each, and their registry: one line each."""

from tightrope.methods.base import Cost, Info, Method, dual_step
from tightrope.methods.csoa import CSOA
from tightrope.methods.fwcsoa import FWCSOA

METHODS: dict[str, type[Method]] = {
    "csoa": CSOA,
    "fw-csoa": FWCSOA,
}

__all__ = ["CSOA", "FWCSOA", "METHODS", "Cost", "Info", "Method", "dual_step"]
