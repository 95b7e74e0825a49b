"""Sizes that cannot be are refused in a sentence, before anything is allocated."""

# Wrong arguments are given on purpose:
# pyright: reportArgumentType=false

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import BALL, ROWS, constraints, objective

import tightrope as tr
from tightrope import _limits
from tightrope.sets.low_rank import LowRankBall

SPREAD = {
    "L2Ball": tr.L2Ball, "L1Ball": tr.L1Ball, "LinfBall": tr.LinfBall, "Simplex": tr.Simplex,
    "NuclearBall": lambda radius, shape: tr.NuclearBall(radius, shape=(shape, 2)),
    "Spectraplex": tr.Spectraplex,
    "GroupBall": lambda radius, shape: tr.GroupBall(radius, groups=np.arange(shape) // 2),
    "Box": lambda radius, shape: tr.Box(-radius, radius, shape=shape),
    "LowRankBall": lambda radius, shape: LowRankBall(radius, size=(shape, shape), rank=2),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(SPREAD) - {"GroupBall"}))
@pytest.mark.parametrize("size", [2**31, 10**12, 10**30])
def test_points_of_more_coordinates_than_can_be_numbered_are_refused(name, size):
    with pytest.raises(ValueError, match="expected at most 2,147,483,647"):
        SPREAD[name](1.0, size)


def test_the_largest_box_is_made_and_measured_without_an_array():
    assert float(tr.Box(-1.0, 1.0, shape=2**31 - 1).diameter) == pytest.approx(2 * 46341, rel=1e-3)


@pytest.mark.parametrize("name", sorted(SPREAD))
@pytest.mark.parametrize("radius", [1e308, 1.1e18, 10**400, float("inf"), float("nan"), -1.0, np.ones(2), jnp.ones(2)])
def test_a_radius_with_which_nobody_can_compute_is_refused(name, radius):
    with pytest.raises(ValueError, match=r"expected (one|finite|smaller|each|lower)"):
        SPREAD[name](radius, 4)


@pytest.mark.parametrize("name", sorted(SPREAD))
def test_of_the_largest_radius_all_that_is_computed_is_finite(name, dtype):
    domain = SPREAD[name](1e18, 4)
    g = jax.tree.map(lambda v: jnp.ones_like(v), domain.start(dtype))
    assert np.isfinite(float(jnp.square(jnp.asarray(domain.diameter, dtype))))
    assert np.isfinite(float(domain.support(g) if name != "LowRankBall" else 0.0))
    points = [domain.start(dtype)] + ([domain.lmo(g)] if name != "LowRankBall" else [])
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(points))
    assert all(bool(domain.contains(point)) for point in points)


def test_a_polytope_of_such_a_size_is_refused():
    with pytest.raises(ValueError, match="beyond 1e"):
        tr.Polytope(np.vstack([np.eye(2), -np.eye(2)]), np.full(4, 1e19))


def test_points_that_do_not_fit_into_memory_are_refused_before_the_first_is_made(monkeypatch):
    monkeypatch.setattr(_limits, "memory", lambda: 2**33)
    problem = tr.Problem(lambda x, theta: jnp.sum(x), None, tr.L2Ball(1.0, shape=2**31 - 1))
    with pytest.raises(ValueError, match=r"2,147,483,647 coordinates, \d+ GiB each.*smaller shape"):
        tr.minimize(problem, ROWS, method="csoa", steps=3)


PROBLEM = tr.Problem(objective, constraints, BALL, levels=(0.5, 0.4))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"record": 2**63}, "record is 9,223,372,036,854,775,808"),
        ({"seeds": itertools.count()}, "seeds has more than 10,000,000"),
        ({"seeds": range(10**18)}, "seeds has more than 10,000,000"),
        ({"record": range(1, 10**18)}, "record has more than 10,000,000"),
        ({"seeds": range(5000), "record": range(1, 3000)}, "rows.*expected at most 10,000,000"),
        ({"steps": 2**31}, "fewer than 2"),
    ],
)
def test_a_sweep_of_a_size_that_cannot_be_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        tr.sweep(PROBLEM, ROWS, tr.CSOA(), **{"steps": 3000, **options})


@pytest.mark.parametrize("shape", [(1e9, 1e9), (10**9, 10**9), (2**40, 3), (2.5, 3), (3,), "x", 3, (float("nan"), 3)])
def test_a_completion_of_a_shape_that_cannot_be_is_refused(shape, monkeypatch):
    monkeypatch.setattr(_limits, "memory", lambda: 2**34)
    entries = np.array([0, 1, 1]), np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0])
    with pytest.raises((ValueError, TypeError), match=r"shape.*expected"):
        tr.StructuredMatrixCompletion().fit(entries, shape=shape)


# ---- raw errors that became sentences ---------------------------------------------------------------------------------


LOOSE: Any = tr  # whose arguments are wrong on purpose


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: LOOSE.sweep(PROBLEM, ROWS, tr.CSOA(), steps=3, levels="x"), "levels is 'x'"),
        (lambda: LOOSE.sweep(PROBLEM, ROWS, tr.CSOA(), steps=3, levels=[[1.0], [1.0, 2.0]]), "levels is"),
        (lambda: LOOSE.sweep(PROBLEM, ROWS, tr.CSOA(), steps=3, record=2.5), "record is 2.5"),
        (lambda: LOOSE.sweep(PROBLEM, ROWS, tr.CSOA(), steps=3, record="x"), "record is 'x'"),
        (lambda: LOOSE.sweep(PROBLEM, ROWS, tr.CSOA(), steps=3, memory="x"), "memory is 'x'"),
        (lambda: LOOSE.sweep(PROBLEM, ROWS, tr.CSOA(), steps=3, track=3), "track is 3"),
        (lambda: LOOSE.sweep(PROBLEM, ROWS, tr.CSOA(), steps=3, seeds=np.array("x")), "seeds is"),
        (
            lambda: LOOSE.minimize(PROBLEM, ROWS, method="csoa", steps=3, track=lambda x: x["a"]),
            "track fails on a point",
        ),
        (lambda: LOOSE.Polytope(b"x", [1.0]), "A is b'x'"),
        (lambda: LOOSE.Polytope([[1.0]], 10**400), "b is"),
        (lambda: LOOSE.penalised(PROBLEM, print), "weights is <built-in"),
        (lambda: LOOSE.lift_cvar(PROBLEM, (), -1.0, 1.0), r"alpha is \(\)"),
        (lambda: LOOSE.check_problem(PROBLEM, ROWS, samples=2.5), "samples is 2.5"),
        (lambda: LOOSE.check_problem(PROBLEM, ROWS, x0="x"), "x0 is 'x'"),
        (lambda: LOOSE.Stream(np.array("x")), "expected factory"),
        (lambda: LOOSE.Online(PROBLEM, example=ROWS).load_state_dict(3), "arrays are 3"),
        (lambda: LOOSE.Problem(objective, constraints, BALL, names=3), "names is 3"),
        (lambda: LOOSE.minimize(PROBLEM, ROWS, method="csoa", steps=3).report(None), "path is None"),
        (lambda: LOOSE.minimize(PROBLEM, ROWS, method="csoa", steps=3).report(""), "path is ''"),
        (lambda: LOOSE.minimize(PROBLEM, ROWS, method="csoa", steps=3).plot(2.5), "path is 2.5"),
        (lambda: LOOSE.compilation_cache(3), "folder is 3"),
    ],
)
def test_what_numpy_or_jax_would_have_said_is_a_sentence(call, words, monkeypatch):
    monkeypatch.delenv("TIGHTROPE_COMPILATION_CACHE", raising=False)
    with pytest.raises((TypeError, ValueError), match=rf"(?s){words}.*\.$"):
        call()
