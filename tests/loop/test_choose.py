"""What "auto" does when its first choice does not get there: the bundle goes on, within the budget, and resumes."""

import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.loop import choose

PASSES = 40
ROWS = np.random.default_rng(0).normal(size=(200, 3)) @ np.diag([1.0, 3.0, 0.3]) + [1.0, 0.5, -1.0]


def f(x, theta):
    return jnp.abs(x["x"] - theta).sum()


def tail(x, theta):
    """CVaR of the worst tenth of <theta, x>."""
    return (x["q"] + 10 * jnp.maximum(jnp.dot(theta, x["x"]) - x["q"], 0))[None]


DOMAIN = tr.Product({"x": tr.L2Ball(5.0, shape=3), "q": tr.Box(-20.0, 20.0, shape=())})
PROBLEM = tr.Problem(f, tail, DOMAIN, levels=0.5)


@pytest.fixture(autouse=True)
def too_many_coordinates(monkeypatch):
    """Four of them, for the bundle to be no first choice."""
    monkeypatch.setattr(choose, "COORDINATES", 3)


def solve(**options):
    return tr.minimize(PROBLEM, ROWS, **({"passes": PASSES, "progress": False} | options))


@pytest.mark.slow
def test_the_bundle_goes_on_within_the_budget_and_the_report_says_so():
    result = solve()
    assert isinstance(result.method, tr.Bundle)
    note = next(note for note in result.notes if note.startswith("went on with bundle in the place of svrg-csoa"))
    assert "the gap is about" in note
    assert result.cost.gradients <= PASSES * len(ROWS)
    passes = result.trace["passes"]
    assert passes.is_monotonic_increasing
    assert passes.iloc[-1] == pytest.approx(result.cost.gradients / len(ROWS))
    alone = solve(method="svrg-csoa", output="feasible")
    assert result.violation == 0
    assert (result.objective or 0.0) < (alone.objective or 0.0)


@pytest.mark.parametrize("leg", ["svrg-csoa", "bundle"])
def test_a_run_stopped_before_or_after_the_change_resumes_bit_for_bit(leg, tmp_path):
    whole, seen = solve(), []

    def stop(snapshot):
        if (snapshot.average is None) == (leg == "bundle"):  # the bundle keeps no mean
            seen.append(snapshot.step)
        return len(seen) == 3

    stopped = solve(checkpoint=tmp_path / "run", callback=stop)
    assert stopped.status is tr.Status.CALLBACK_STOPPED
    assert stopped.method.name == leg
    resumed = solve(checkpoint=tmp_path / "run")
    for name in ("x", "q"):
        np.testing.assert_array_equal(resumed.x[name], whole.x[name])
    np.testing.assert_array_equal(resumed.dual, whole.dual)
    assert resumed.cost.gradients == whole.cost.gradients
    assert resumed.trace["step"].tolist() == whole.trace["step"].tolist()
    assert resumed.notes == whole.notes


def test_no_change_where_the_user_has_chosen(monkeypatch):
    assert solve(method="svrg-csoa").method.name == "svrg-csoa"
    assert solve(steps=50, passes=None).method.name == "svrg-csoa"
    monkeypatch.setattr(choose, "SECOND_COORDINATES", 3)
    result = solve()
    assert result.method.name == "svrg-csoa"
    assert result.status is tr.Status.NOT_CONVERGED
    assert "The gap is about" in result.message
