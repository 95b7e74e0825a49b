"""Numbers and sentences as they were when somebody last meant to change them.

What is true is held against an independent formula. What is chosen (a tolerance, where to start, a scale, how a sentence
reads) has none, and is held here against `tests/golden/NAME.json` instead. After a change that is meant, write the files
anew with

    TIGHTROPE_GOLDEN=write pytest tests/sets tests/loop tests/evidence tests/fairness

and read their difference: nothing else may have changed."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

FOLDER = Path(__file__).with_name("golden")
MANY = 40  # numbers of an array beyond which their sums stand for them


def same(name: str, values: Mapping[str, Any], rel: float = 1e-9) -> None:
    """Refuse values that differ from those in the file: numbers by more than `rel` of the largest of their
    array, and 1e-13: give what is small by nature in units of its own."""
    path, found = FOLDER / f"{name}.json", {key: _plain(value) for key, value in values.items()}
    if os.environ.get("TIGHTROPE_GOLDEN") == "write":
        FOLDER.mkdir(exist_ok=True)
        path.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n")
        return
    expected = json.loads(path.read_text())
    assert list(found) == list(expected)
    for key, value in found.items():
        _compare(f"{name}: {key}", value, expected[key], rel)


def golden(name: str) -> dict[str, Any]:
    """What is kept, for whoever need only see that it still holds; nothing while files are written anew."""
    return {} if os.environ.get("TIGHTROPE_GOLDEN") == "write" else json.loads((FOLDER / f"{name}.json").read_text())


def _plain(value: Any) -> Any:
    """What JSON can hold. Of long arrays, the shape and two sums whose weights no two entries share."""
    if isinstance(value, str | bool | int | type(None)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, jax.Array | np.ndarray | np.generic | float):
        array = np.asarray(value)
        if array.dtype.kind in "biu":
            array = array.astype(int)
        if array.size > MANY:
            weights = np.random.default_rng(0).uniform(1, 2, (2, array.size))
            return {"shape": list(array.shape), "sums": (weights @ array.ravel().astype(float)).tolist()}
        return array.tolist()
    leaves = jax.tree.leaves(value)
    assert leaves != [value], f"{type(value).__name__} is nothing that can be written down"
    return [_plain(leaf) for leaf in leaves]


def _compare(where: str, found: Any, expected: Any, rel: float) -> None:
    assert type(found) is type(expected) or {type(found), type(expected)} <= {int, float}, (where, found, expected)
    if isinstance(expected, Mapping):
        assert list(found) == list(expected), where
        for key in expected:
            _compare(f"{where}[{key}]", found[key], expected[key], rel)
    elif isinstance(expected, list) and not _numbers(expected):
        assert len(found) == len(expected), (where, found, expected)
        for k, (one, other) in enumerate(zip(found, expected, strict=True)):
            _compare(f"{where}[{k}]", one, other, rel)
    elif isinstance(expected, list | float):
        one, other = np.asarray(found, float), np.asarray(expected, float)
        finite = other[np.isfinite(other)]
        np.testing.assert_allclose(
            one, other, rtol=0, atol=rel * np.max(np.abs(finite), initial=0) + 1e-13, err_msg=where
        )
    else:
        assert found == expected, where


def _numbers(values: list) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
