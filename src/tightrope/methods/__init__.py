"""The methods that tightrope itself takes, one file each, and the registry of all, solvers included.

Importing one here registers it under its `name`. Methods of others register themselves: a package that has some names the
module which calls `register` in its entry points, in the group "tightrope.methods".
"""

import importlib
import importlib.metadata
from functools import cache
from typing import Any

from tightrope.methods.base import Algorithm as Algorithm
from tightrope.methods.base import Cost as Cost
from tightrope.methods.base import Facts as Facts
from tightrope.methods.base import Info as Info
from tightrope.methods.base import Method as Method
from tightrope.methods.base import Rates as Rates
from tightrope.methods.base import Refreshing as Refreshing
from tightrope.methods.base import State as State
from tightrope.methods.base import Steps as Steps
from tightrope.methods.base import dual_step as dual_step
from tightrope.methods.conservative.cfwcsoa import CFWCSOA as CFWCSOA
from tightrope.methods.conservative.cscgd import CSCGD as CSCGD
from tightrope.methods.conservative.csoa import CSOA as CSOA
from tightrope.methods.conservative.fwcsoa import FWCSOA as FWCSOA
from tightrope.methods.conservative.mfwcsoa import MFWCSOA as MFWCSOA
from tightrope.methods.conservative.splitcsoa import SplitCSOA as SplitCSOA
from tightrope.methods.conservative.svrfcsoa import SVRFCSOA as SVRFCSOA
from tightrope.methods.conservative.svrgcsoa import SVRGCSOA as SVRGCSOA

_REGISTRY: dict[str, type[Algorithm]] = {}


def register(*kinds: type) -> None:
    """Put methods and solvers into the registry under their names; other classes, and abstract ones, are passed over."""
    found = {kind.name: kind for kind in kinds if issubclass(kind, Algorithm) and kind.name}
    for name, kind in found.items():
        if _REGISTRY.setdefault(name, kind) is not kind:
            other = _REGISTRY[name].__qualname__
            raise ValueError(f"{kind.__qualname__} is called {name!r} as {other} is; give it another name.")


register(*(kind for kind in list(globals().values()) if isinstance(kind, type)))


@cache
def _load_what_others_registered() -> None:
    importlib.import_module("tightrope.solvers")  # which stands above this room
    for other in importlib.metadata.entry_points(group="tightrope.methods"):
        other.load()


def registered() -> dict[str, type[Algorithm]]:
    """All methods by name, those of installed packages included."""
    _load_what_others_registered()
    return dict(_REGISTRY)


def __getattr__(name: str) -> Any:
    if name == "METHODS":
        return registered()
    if not name.startswith("_"):
        for kind in registered().values():
            if kind.__name__ == name:
                return kind
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
