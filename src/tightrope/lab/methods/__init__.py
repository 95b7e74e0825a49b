"""Methods of others, to compare with: one file each, in the folder of its family.

The entry point `tightrope.methods` of this package names this module; loading it puts every method in these folders into
`tightrope.METHODS`. A file in one of them is all that a rival needs.
"""

import pkgutil
from importlib import import_module

from tightrope.methods import register

for _file in pkgutil.walk_packages(__path__, f"{__name__}."):
    _own = [kind for kind in vars(import_module(_file.name)).values() if getattr(kind, "__module__", "") == _file.name]
    register(*sorted((kind for kind in _own if isinstance(kind, type)), key=lambda kind: kind.__name__))
