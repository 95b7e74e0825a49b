"""No two things of a trace or a table share a column: each pair that would is refused before any work."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr

DATA = np.ones((8, 2), np.float32)


def problem(name: str) -> tr.Problem:
    return tr.Problem(
        lambda x, theta: jnp.sum((x - theta) ** 2), lambda x, theta: x[:1] * theta[:1], tr.L2Ball(1.0, shape=2),
        levels=0.5, names=(name,),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["gap", "weight", "level", "seed", "method", "x", "full objective"])
def test_a_constraint_is_not_called_like_a_column(name):
    with pytest.raises(ValueError, match=f"Problem: names has '{name}'.*another column"):
        problem(name)


def test_no_constraint_takes_the_place_of_a_coefficient_in_a_sweep():
    with pytest.raises(ValueError, match="beside the coefficients of mine, has 'eta0'"):
        tr.sweep(problem("eta0"), DATA, {"mine": tr.CSOA(eta0=np.array([0.1, 1.0]))}, steps=2)
    assert "eta0" in tr.minimize(problem("eta0"), DATA, steps=2, method="csoa", progress=False).trace  # none is there


@pytest.mark.parametrize("name", ["gap", "share", "dual share", "full share"])
@pytest.mark.parametrize(("call", "by"), [(tr.minimize, "method"), (tr.sweep, "methods")])
def test_nothing_that_is_tracked_takes_the_place_of_another_column(call, by, name):
    with pytest.raises(ValueError, match=f"track has '{name}'"):
        call(problem("share"), DATA, **{by: tr.CSOA(0.1)}, steps=2, track=lambda x: {name: jnp.sum(x)})


def test_every_column_of_a_run_and_of_a_sweep_is_known_to_be_one():
    """A new column that `OWN` does not list could be overwritten."""
    from tightrope.columns import OWN, of_constraints

    trace = tr.minimize(problem("share"), DATA, trace_full=True, progress=False, record=3).trace
    method = tr.CSOA(eta0=np.array([0.1, 1.0]))
    table = tr.sweep(problem("share"), DATA, method, steps=4, levels=[0.5, 0.6], points=True)
    assert set(trace) <= OWN | set(of_constraints(["share"]))
    assert set(table) <= OWN | set(of_constraints(["share"])) | {field.name for field in dataclasses.fields(method)}
