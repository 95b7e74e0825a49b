"""Numbers kept in a file beside the test that makes them: `tests/a/test_b.py` keeps its own in `tests/a/test_b.json`.

They are not right because they stand there: other tests say what is right. A number is kept where a change in it should be
seen by whoever makes one: where a short run of each method ends. After a change that is meant,

    TIGHTROPE_STORED=write pytest -n 0 tests/a/test_b.py

writes the file anew, and its difference shows what else has changed. All files together keep at most `MOST` numbers.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

MOST = 1000


def same(test: str, name: str, found: Mapping[str, Any], rel: float = 1e-9) -> None:
    """Refuse what is not in the file of the test (its `__file__`) under that name: other words, and numbers that differ by
    more than `rel` of the largest of their array."""
    path, now = Path(test).with_suffix(".json"), {key: _plain(value) for key, value in found.items()}
    if os.environ.get("TIGHTROPE_STORED") == "write":
        return _write(path, {**_read(path), name: now})
    then = _read(path)[name]
    assert list(now) == list(then)
    for key, value in now.items():
        if isinstance(value, str):
            assert value == then[key], key
        else:
            largest = np.nanmax(np.abs([0.0, *then[key]]))
            np.testing.assert_allclose(value, then[key], rtol=0, atol=rel * largest + 1e-14, err_msg=key)


def count(folder: Path) -> int:
    """How many numbers the files below a folder keep."""
    return sum(1 for path in folder.rglob("test_*.json") for _ in _numbers(_read(path)))


def _plain(value: Any) -> str | list[float]:
    return value if isinstance(value, str) else [float(f"{number:.12g}") for number in np.ravel(value)]


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def _write(path: Path, cases: dict[str, Any]) -> None:
    lines = (f"{json.dumps(name)}: {json.dumps(cases[name])}" for name in sorted(cases))
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _numbers(part)
    elif not isinstance(value, str):
        yield value
