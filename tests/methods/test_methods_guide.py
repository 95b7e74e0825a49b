"""The skeleton of docs/new_algorithm.md is a method like any other."""

import re
from pathlib import Path

import numpy as np
import pytest

import tightrope as tr
from tightrope.problems import EXACT

GUIDE = Path(__file__).parents[2] / "docs" / "new_algorithm.md"


@pytest.fixture(scope="module")
def queue():
    namespace: dict = {"__name__": "guide"}
    exec(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)[0], namespace)
    return namespace["Queue"]


def test_it_is_short():
    block = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)[0]
    written = [line for line in block.split("import tightrope as tr\n")[1].splitlines() if line.strip()]
    assert len(written) <= 25


def test_it_runs_and_converges(queue):
    solved = EXACT["simplex"]()
    result = tr.minimize(solved.problem, solved.samples, method=queue(), steps=30_000)
    np.testing.assert_allclose(result.average, solved.x, atol=0.05)
    np.testing.assert_allclose(result.dual, solved.dual, atol=0.05)


def test_it_equals_csoa_without_regulariser_and_tightening(queue):
    solved = EXACT["simplex"]()
    same = tr.CSOA(eta0=1.0, delta=0.0, upsilon0=0.0)
    results = [tr.minimize(solved.problem, solved.samples, method=m, steps=200) for m in (queue(), same)]
    np.testing.assert_allclose(results[0].average, results[1].average, rtol=1e-12)


def test_it_can_be_swept(queue):
    solved = EXACT["scalar"]()
    table = tr.sweep(solved.problem, solved.samples, {"queue": queue(eta0=np.array([0.5, 1.0]))}, steps=100)
    assert table.eta0.tolist() == [0.5, 1.0]
