"""Numbers that are kept in a file beside a test, so that none of them changes unless somebody means it.

Such a test does not say that the numbers are right: other tests do. It says that they are what they were, to some digits:
whoever changes a formula on purpose writes the file anew (`write`) and sees in its difference what else has changed.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

Cases = Mapping[str, Callable[[], Any]]


def by_name(found: Any) -> dict[str, Any]:
    """The leaves of a tree by their paths: lists of numbers, and words."""
    leaves = jax.tree_util.tree_flatten_with_path(found, is_leaf=lambda leaf: leaf is None)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="."): _plain(leaf) for path, leaf in leaves}


def _plain(leaf: Any) -> Any:
    if leaf is None or isinstance(leaf, str):
        return leaf
    values = np.ravel(np.asarray(leaf)).astype(float)
    return [float(f"{value:.11g}") for value in np.where(np.abs(values) > 1e300, np.copysign(np.inf, values), values)]


def read(table: Path) -> dict[str, Any]:
    """What was stored."""
    return json.loads(table.read_text())


def assert_as_stored(stored: dict[str, Any], found: Any, rtol: float, floor: float, nothing: float = 0.0) -> None:
    """Every number of `found` is what it was, but for a relative error, a part of the largest number of its array, and what
    is nothing beside all others."""
    now = by_name(found)
    assert list(now) == list(stored)
    for name, value in now.items():
        if not isinstance(value, list):
            assert value == stored[name], name
            continue
        then = np.asarray(stored[name], float)
        largest = np.max(np.abs(then[np.isfinite(then)]), initial=0.0)
        np.testing.assert_allclose(value, then, rtol, floor * largest + nothing, err_msg=name)


def write(table: Path, cases: Cases) -> None:
    """Store what all cases give now."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_numpy_rank_promotion", "raise")
    lines = []
    for name, case in cases.items():
        entries = ",\n  ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in by_name(case()).items())
        lines.append(f" {json.dumps(name)}: {{\n  {entries}\n }}")
    table.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{table}: {len(lines)} cases")
