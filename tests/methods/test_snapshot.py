"""What the methods with snapshots have in common: better than their plain counterparts, and resumed bit for bit."""

from typing import Any

import jax
import numpy as np
import pytest

import tightrope as tr
from studies.finite_sums import error, finite


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ours", "theirs", "name"),
    [("svrg-csoa", "csoa", "l1-lp"), ("svrg-csoa", "csoa", "simplex-lp"), ("svrf-csoa", "fw-csoa", "l1-lp")],
)
def test_it_is_never_worse_than_the_plain_method_at_equal_passes(ours, theirs, name):
    problem, data, optimum = finite(name)
    for seed, passes in ((seed, passes) for seed in range(5) for passes in (6, 15)):
        settings: dict[str, Any] = {"passes": passes, "seed": seed, "record": 0}
        errors = [
            error(problem, data, tr.minimize(problem, data, method=m, **settings).x, optimum) for m in (ours, theirs)
        ]
        assert errors[0] <= errors[1]


def test_resumed_in_the_middle_of_an_epoch_it_equals_an_uninterrupted_run(tmp_path):
    problem, data, _ = finite("scalar")
    settings: dict[str, Any] = {"method": "svrf-csoa", "steps": 100}
    whole = tr.minimize(problem, data, **settings)
    tr.minimize(problem, data, **settings, checkpoint=tmp_path / "c", callback=lambda s: s.step >= 40, chunk=3)
    resumed = tr.minimize(problem, data, **settings, checkpoint=tmp_path / "c", chunk=17)
    jax.tree.map(np.testing.assert_array_equal, (whole.x, whole.state), (resumed.x, resumed.state))
