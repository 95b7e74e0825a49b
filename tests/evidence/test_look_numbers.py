"""Numbers of looks at a point: the pull, the gap and its rounding, what a point is worth, the room that a margin leaves. By
hand in NumPy and float64 where a formula is short; the rest as kept in tests/golden (see there)."""

# What stands in the place of a problem, a run or a set has only what is asked of it:
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

import math
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from core_cases import BALL, CSOA, ROWS, constraints, draw, objective
from golden import same
from scipy.optimize import brentq
from scipy.signal import lfilter

import tightrope as tr
from tightrope.evidence import at_a_point as worth
from tightrope.evidence import gap, margin, oscillation
from tightrope.evidence import pull as feasible
from tightrope.evidence import strictly_feasible as strictly
from tightrope.evidence.gap import Bound, Inside
from tightrope.evidence.stopping import Judge
from tightrope.loop.prepare import prepare
from tightrope.loop.steps import Summary
from tightrope.methods.snapshot import Snapshot
from tightrope.problem.conflict import best_weights
from tightrope.problem.rounding import LOOK, Sizes
from tightrope.tree import replace

EPS = np.finfo(float).eps
X = np.array([0.9, 0.2, -0.1])  # violates both
S = np.array([-0.4, 0.3, 0.1])
LAM = np.array([0.6, 0.2])
OF_F, OF_H = 1e-2, 1e-3  # units, so that no number is near 1 by nature
LEVELS = OF_H * np.array([0.5, 0.4])
PROBLEM = tr.Problem(
    lambda x, theta: OF_F * objective(x, theta), lambda x, theta: OF_H * constraints(x, theta), BALL, levels=LEVELS
)
MANY = np.random.default_rng(8).normal([1.0, -0.5, 0.2], 0.7, size=(LOOK + 40, 3))
MANY[1] *= 50  # which is not among the rows that a glance sees


def f_of(x, rows=ROWS):
    return OF_F * ((x - rows) ** 2).sum(axis=1) / 2


def h_of(x, rows=ROWS):
    return OF_H * np.stack([rows @ x, x[0] + 0.1 * rows[:, 1]], axis=1) - LEVELS


def slopes_of(rows=ROWS):
    return OF_H * np.stack([rows, np.tile([1.0, 0.0, 0.0], (len(rows), 1))], axis=1)


def sizes_at(x, rows=ROWS):
    """What is summed, in absolute values: f, h, and slopes."""
    grad, slopes = OF_F * np.abs(x - rows), np.abs(slopes_of(rows))
    size_f = np.abs(f_of(x, rows)) + grad @ np.abs(x)
    size_h = np.abs(h_of(x, rows)) + slopes @ np.abs(x) + LEVELS
    return size_f.mean(axis=0), size_h.mean(axis=0)


def on_rows(rows=ROWS, method: Any = CSOA, **options):
    settings = {"steps": 5, "passes": None, "batch_size": None, "seeds": (0,), "x0": None} | options
    return prepare(PROBLEM, rows, method, **settings)


# ---- the pull --------------------------------------------------------------------------------------------------------


def test_the_pull_by_hand():
    done = feasible.pull(PROBLEM, jnp.asarray(ROWS), jnp.asarray(X), jnp.asarray(S))
    size = np.abs(h_of(X)).mean(axis=0) + np.abs(slopes_of().mean(axis=0)) @ np.abs(X) + LEVELS
    rounding = 64 * EPS * size
    h, found = feasible.with_rounding(PROBLEM, jnp.asarray(X), jnp.asarray(ROWS))
    np.testing.assert_allclose(h, h_of(X).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found, rounding, rtol=1e-12)

    def worst(a):
        return np.max(h_of((1 - a) * X + a * S).mean(axis=0) + rounding) + 0.1 * rounding.max()

    a = brentq(worst, 0, 1, xtol=1e-15)
    assert done.a == pytest.approx(a, rel=1e-8)
    rise = f_of(np.asarray(done.x)).mean() - f_of(X).mean()
    assert done.cost == pytest.approx(rise, rel=1e-9)
    assert done.bound == pytest.approx(done.a * (f_of(S).mean() - f_of(X).mean()), rel=1e-9)
    np.testing.assert_allclose(done.towards, S)
    assert str(done) == (
        f"pulled towards a strictly feasible point by a = {done.a:.3g}, which cost {done.cost:.3g} in the objective "
        f"(at most {done.bound:.3g})."
    )
    alone = feasible.pull(PROBLEM, jnp.asarray(ROWS), jnp.asarray(S), jnp.asarray(S))
    assert (alone.a, alone.cost, alone.bound) == (0.0, 0.0, 0.0)
    assert str(alone) == "the output satisfies every constraint as it is; nothing was pulled."


class Line:
    """Constraints along a line, one number each, in the place of those of a problem."""

    def __init__(self, monkeypatch, h, rounding):
        self.asked, self.roots = [], []
        monkeypatch.setattr(
            feasible, "with_rounding", lambda problem, x, data: (np.array([h(x)]), np.array([rounding]))
        )
        monkeypatch.setattr(feasible, "full_constraints", lambda problem, x, data: (self.asked.append(x), [h(x)])[1])
        monkeypatch.setattr(feasible, "full_values", lambda problem, x, data: (x**2, None))
        monkeypatch.setattr(feasible, "_between", lambda problem, x, towards, a: (1 - a) * x + a * towards)


def test_the_pull_goes_just_beyond_its_root_and_no_further_than_the_whole_way(monkeypatch):
    Line(monkeypatch, lambda x: x - 0.25, 1e-3)  # x + 0.75 - 1 + margin = 0, a tenth of it beyond
    found = feasible.pull(None, None, 1.0, 0.0)
    assert found.a == pytest.approx(0.75 + 1.1e-3, abs=1e-8)
    assert found.bound == pytest.approx(found.a * -1.0)
    assert found.cost == pytest.approx((1 - found.a) ** 2 - 1)
    Line(monkeypatch, lambda x: x - 1e-3, 1e-3)  # at 0 it is satisfied, and not by a tenth of the margin more
    assert feasible.pull(None, None, 1.0, 0.0).a == 1.0
    Line(monkeypatch, lambda x: -1e-3, 1e-3)
    assert feasible.pull(None, None, 1.0, 0.0).a == 0.0
    Line(monkeypatch, lambda x: 1.0, 1e-3)  # never
    assert feasible.pull(None, None, 1.0, 0.0).a == 1.0


def test_a_root_that_falls_short_is_gone_beyond_in_steps_that_double(monkeypatch):
    line = Line(monkeypatch, lambda x: x - 0.25, 1e-3)
    monkeypatch.setattr(
        "scipy.optimize.root_scalar",
        lambda *a, **options: (line.roots.append(options), SimpleNamespace(root=0.751 - 1e-11))[1],
    )
    line.asked.clear()
    found = feasible.pull(None, None, 1.0, 0.0)
    assert found.a == pytest.approx(0.751 - 1e-11 + 1.5e-11, abs=2e-16)  # 1 + 2 + 4 + 8 of 1e-12
    assert line.roots == [{"bracket": (0.0, 1.0), "method": "brentq", "xtol": 1e-15, "rtol": 1e-9}]


def test_a_point_is_inside_by_twice_its_rounding(monkeypatch):
    room = 1e-3
    monkeypatch.setattr(
        strictly, "with_rounding", lambda problem, x, data: (np.array([-x, -9.0]), np.array([room, room]))
    )
    assert strictly.strictly_feasible(None, None, [2e-3, 2.1e-3, 3e-3], None) == 2.1e-3


def test_phase_one_is_lifted_by_the_height_of_the_start(monkeypatch):
    asked = []
    data = jnp.asarray(ROWS)

    def solve(problem, rows, **options):
        asked.append((problem, options))
        return SimpleNamespace(x={"x": jnp.asarray(S), "t": -1.0})

    found = strictly.strictly_feasible(PROBLEM, data, [jnp.asarray(X)], solve)
    np.testing.assert_array_equal(found, S)
    (lifted, options), height = asked[0], np.abs(h_of(X).mean(axis=0)).max() + 1
    assert {k: options[k] for k in ("passes", "record", "progress")} == {"passes": 30, "record": 0, "progress": False}
    np.testing.assert_array_equal(options["x0"]["x"], X)
    assert float(options["x0"]["t"]) == pytest.approx(height)
    box = lifted.domain.sets["t"]
    assert (float(box.lower), float(box.upper)) == pytest.approx((-height, height))
    theta = jnp.asarray(ROWS[0])
    f, h = lifted.sample_values({"x": jnp.asarray(X), "t": jnp.asarray(0.3)}, theta)
    assert float(f) == 0.3
    np.testing.assert_allclose(h, h_of(X, ROWS[:1])[0] - 0.3, rtol=1e-12)
    outside = SimpleNamespace(x={"x": jnp.asarray(X), "t": 1.0})
    assert strictly.strictly_feasible(PROBLEM, data, [jnp.asarray(X)], lambda *a, **o: outside) is None


def test_the_worst_constraint_and_heights_above_it():
    given: Any = SimpleNamespace(
        sample_values=lambda x, theta: (0.0, jnp.array([x, 3.0, -1.0])),
        values_given=lambda x, theta, inner: (0.0, jnp.array([x, inner])),
        inner_values=lambda x, theta: 10 * x,
    )
    assert float(strictly._worst(2.0, None, given)) == 3.0
    assert float(strictly._worst(4.0, None, given)) == 4.0
    assert strictly._of_worst(jnp.array([1.0, 3.0, -1.0])).tolist() == [0.0, 1.0, 0.0]
    z = {"x": 2.0, "t": 0.5}
    assert strictly._nested_above(z, None, given, 7.0).tolist() == [1.5, 6.5]
    assert strictly._inner(z, None, given) == 20.0
    assert strictly._above(z, None, given).tolist() == [1.5, 2.5, -1.5]
    assert strictly._height(z, None, given) == 0.5


def test_exact_constraints_are_rounded_like_their_own_size():
    exact = replace(PROBLEM, constraints=None, exact_constraints=lambda x: jnp.stack([OF_H * x[0], OF_H * jnp.sum(x)]))
    h, found = feasible.with_rounding(exact, jnp.asarray(X), jnp.asarray(ROWS))
    expected = OF_H * np.array([X[0], X.sum()]) - LEVELS
    np.testing.assert_allclose(h, expected, rtol=1e-12)
    size = np.abs(expected) + OF_H * np.array([abs(X[0]), np.abs(X).sum()]) + LEVELS
    np.testing.assert_allclose(found, 64 * EPS * size, rtol=1e-9)


def test_what_a_point_is_worth_where_constraints_are_exact():
    exact = replace(PROBLEM, constraints=None, exact_constraints=lambda x: jnp.stack([OF_H * x[0], OF_H * jnp.sum(x)]))
    found, expected = (
        worth.worth_on_rows(exact, jnp.asarray(X), jnp.asarray(ROWS)),
        OF_H * np.array([X[0], X.sum()]) - LEVELS,
    )
    assert (found.objective, found.objective_error) == pytest.approx((f_of(X).mean(), 20 * EPS * f_of(X).mean()))
    np.testing.assert_allclose(found.constraints, expected, rtol=1e-12)
    np.testing.assert_allclose(found.errors, 20 * EPS * (np.abs(expected) + LEVELS), rtol=1e-9)


# ---- the gap ---------------------------------------------------------------------------------------------------------


def hand_bound(x, rows):
    """The lower bound on F* at x, and its rounding, by the formula."""
    f, h = f_of(x, rows).mean(), h_of(x, rows).mean(axis=0)
    g = OF_F * (x - rows).mean(axis=0) + LAM @ slopes_of(rows).mean(axis=0)
    lowest = -2.0 * np.linalg.norm(g)
    return f + LAM @ h - g @ x + lowest, abs(f) + LAM @ np.abs(h), np.abs(g) @ np.abs(x), abs(lowest)


def snapshot(rows):
    """A look at all rows at X, by hand."""
    means = (
        f_of(X, rows).mean(),
        h_of(X, rows).mean(axis=0),
        OF_F * (X - rows).mean(axis=0),
        slopes_of(rows).mean(axis=0),
    )
    return Snapshot(jnp.asarray(X), jnp.asarray(LAM), *map(jnp.asarray, means))


def test_the_gap_by_hand():
    """By a few rows, and by every one: of both sizes the larger counts. Of the objective the curvature times the point is
    summed, too, with two choices of signs."""
    rows, some = jnp.asarray(MANY), MANY[::2]
    few, every = (
        gap._Seen(*gap.on_host(gap._look(PROBLEM, snapshot(MANY), rows, every_row=each))) for each in (False, True)
    )
    bends, roundings = 2 * OF_F * np.abs(X), []
    for seen, looked_at in ((few, some), (every, MANY)):
        size_f, size_h = sizes_at(X, looked_at)
        assert float(seen.f_rounding) == pytest.approx(20 * EPS * size_f)
        np.testing.assert_allclose(seen.margin, 64 * EPS * (size_h + 0.1 * size_h.max()), rtol=1e-9)
        value, values, products, support = hand_bound(X, MANY)
        assert float(seen.bound) == pytest.approx(value, rel=1e-12)
        grad = np.maximum(OF_F * np.abs(X - some).mean(axis=0) + bends, OF_F * np.abs(X - looked_at).mean(axis=0))
        slopes = 4.0 * np.linalg.norm(grad + LAM @ np.abs(slopes_of(looked_at)).mean(axis=0))
        sums = size_f + LAM @ size_h + slopes + products + support
        roundings.append(EPS * (20 * sums + 4 * values))
        assert float(seen.bound_rounding) == pytest.approx(roundings[-1], rel=1e-9)
    assert (float(few.judged), float(every.judged)) == pytest.approx((1.0, roundings[1] / roundings[0]))
    assert float(every.judged) > 1.2
    inside, (s_f, s_h) = gap.inside_of(PROBLEM, jnp.asarray(S), rows), sizes_at(S, some)
    assert inside.f - f_of(S, MANY).mean() == pytest.approx(20 * EPS * s_f, rel=0.2)
    np.testing.assert_allclose(inside.h - h_of(S, MANY).mean(axis=0), 20 * EPS * s_h, rtol=0.2)


def seen_as(monkeypatch, **values):
    plain = {"f": 5.0, "h": np.array([0.2, -0.1]), "f_rounding": 0.01, "margin": np.array([0.05, 0.05]), "bound": 4.0,
             "bound_rounding": 0.1, "judged": 2.0}  # fmt: skip
    monkeypatch.setattr(gap, "_look", lambda *given, every_row: gap._Seen(**(plain | values)))


def test_how_a_gap_is_made_of_what_is_seen(monkeypatch):
    inside = Inside(7.0, np.array([-0.6, -0.2]))

    nothing = Bound()

    def found(best=nothing):
        return gap.gap_of(None, None, inside, None, best)

    seen_as(monkeypatch)
    one = found()
    share, plain = 0.25 / (0.25 + 0.55), 0.2 / 0.8
    assert one.best == Bound(4.0, 0.1)
    assert one.value == pytest.approx(5.01 + share * 2.0 - 3.9)
    assert one.rounding == pytest.approx(one.value - (5 + plain * 2.0 - 4.0))
    assert found(Bound(4.1, 0.11)).best == Bound(4.0, 0.1)  # 0.22 by every row
    assert found(Bound(4.1, 0.05)).best == Bound(4.1, 0.1)
    assert found(Bound(4.1, 0.05)).value == pytest.approx(5.01 + share * 2.0 - 4.0)
    seen_as(monkeypatch, f=8.0)
    assert found().value == pytest.approx(8.01 - 3.9)  # the inner point is better: nothing is lost on the way
    seen_as(monkeypatch, h=np.array([-0.2, -0.1]))
    assert found().value == pytest.approx(5.01 - 3.9)
    assert Bound(4.0, 0.1).certain == 3.9
    assert Bound().certain == -math.inf


def test_how_far_a_point_is_pulled_at_most():
    pulled = gap._pulled
    assert pulled(np.array([0.2, -0.1]), np.array([-0.6, -0.2])) == pytest.approx(0.25)
    assert pulled(np.array([0.2, 0.6]), np.array([-0.6, -0.2])) == pytest.approx(0.75)
    assert pulled(np.array([0.2]), np.array([0.1])) == 1.0
    assert pulled(np.array([0.0, -1.0]), np.array([0.0, -1.0])) == 0.0
    assert pulled(np.zeros(0), np.zeros(0)) == 0.0


def test_sizes_by_every_row_over_those_by_a_few():
    x = jnp.asarray(X)
    every, few = sizes_at(X, MANY), sizes_at(X, MANY[::2])
    ratio = gap.judged_by_every_row(PROBLEM, x, jnp.asarray(MANY))
    kinds = [every[0] / few[0], *(every[1] / few[1]), *(np.abs(X - MANY).mean(0) / np.abs(X - MANY[::2]).mean(0))]
    kinds += [*(np.abs(MANY).mean(0) / np.abs(MANY[::2]).mean(0))]
    assert ratio == pytest.approx(max(kinds), rel=1e-9)
    assert ratio > 2
    assert gap.judged_by_every_row(PROBLEM, x, jnp.asarray(MANY[:LOOK])) == 1.0
    assert gap.judged_by_every_row(PROBLEM, x, jnp.asarray(np.tile(MANY[::2], (2, 1)))) >= 1.0


def test_the_ratio_of_sizes_is_their_largest_and_one_where_they_vanish(monkeypatch):
    few = Sizes(np.array(2.0), np.array([1.0, 0.0]), np.array([4.0]), np.array([[1.0]]))
    every = Sizes(np.array(3.0), np.array([1.0, 3.0]), np.array([10.0]), np.array([[1.5]]))
    monkeypatch.setattr(gap, "count", lambda data: LOOK + 1)
    monkeypatch.setattr(gap, "glance", lambda problem, x, data, each: SimpleNamespace(sizes=every if each else few))
    assert gap.judged_by_every_row(None, None, None) == 3.0
    monkeypatch.setattr(gap, "glance", lambda *given, **options: SimpleNamespace(sizes=few))
    assert gap.judged_by_every_row(None, None, None) == 1.0


def test_without_a_linear_minimisation_there_is_no_bound():
    @tr.pytree
    class Blind(tr.L2Ball):
        @property
        def has_lmo(self):
            return False

    problem = replace(PROBLEM, domain=Blind(2.0, shape=3))
    none = Sizes(jnp.zeros(()), jnp.zeros(2), jnp.zeros(3), jnp.zeros((2, 3)))
    bound, rounding = gap._bound(problem, snapshot(ROWS), none)
    assert float(bound) < -1e300
    assert float(rounding) == 0.0


@pytest.mark.parametrize("lmo", [True, False])
def test_a_tolerance_below_rounding(monkeypatch, lmo):
    """By hand: 20 eps of what is summed and 4 of the values; a 32nd of it is refused, and 40 eps of the value."""
    sizes = Sizes(np.array(10.0), np.array([2.0, 1.0]), np.array([3.0, 0.0, 4.0]), np.zeros((2, 3)))
    values = {"f": np.array(0.5), "h": np.array([-2.0, 1.0]), "grad": np.array([1.0, -2.0, 0.0]), "rows": np.eye(2, 3)}
    seen = SimpleNamespace(**values, sizes=sizes)
    problem = SimpleNamespace(domain=SimpleNamespace(has_lmo=lmo))
    monkeypatch.setattr(gap, "distance_across", lambda problem: 7.0)
    sums = 10.0
    if lmo:
        products = np.abs(np.array([1.6, -1.8, 0.0])) @ np.abs(X)
        sums += 10 + 1.2 + 0.2 + 2 * (7.0 * 5.0 + products)
    least = EPS * (20 * sums + 4 * (0.5 + 1.2 + 0.2) * lmo)
    most = max(least / 32, 40 * EPS * 0.5)
    x, lam = jnp.asarray(X), LAM
    gap.refuse_below_rounding(problem, x, lam, seen, most * 1.0001)
    with pytest.raises(
        ValueError, match=f"is about {least:.1g}, because sums of this size are rounded. Give a larger tol.$"
    ):
        gap.refuse_below_rounding(problem, x, lam, seen, most * 0.9999)
    seen.f = np.array(5e4)
    with pytest.raises(ValueError, match="smallest duality gap"):
        gap.refuse_below_rounding(problem, x, lam, seen, 40 * EPS * 5e4 * 0.9999)
    with pytest.raises(ValueError, match="or compute in float64"):
        gap.refuse_below_rounding(problem, jnp.asarray(X, jnp.float32), lam, seen, 0.0)


# ---- judge -----------------------------------------------------------------------------------------------------------


def test_how_gaps_of_all_sizes_are_judged():
    found, gaps = {}, [(4e-10, 0), (4.1e-10, 0), (4e-4, 1.9e-4), (4e-4, 2e-4), (4.1e-4, 3e-4), (0.3, 0), (0.31, 0.01)]
    gaps += [(0.31, 0.2), (0.7, 0.35), (0.7, 0.41), (3.9, 0), (4.1, 0), (math.inf, 0), (math.nan, 0)]
    for name, tol, until in (
        ("budget", None, False),
        ("until solved", None, True),
        ("tolerance", 0.3, False),
        ("both", 0.3, True),
    ):
        for gap_, rounding in gaps:
            judge = Judge(tol, until)
            status = judge.look(gap_, rounding, 4.0)
            found[f"{name} {gap_} {rounding}"] = [
                status and status.name, judge.at_the_end().name, judge.out_of_reach(), str(judge), judge.best,
                judge.sure(rounding),
            ]  # fmt: skip
    for tol, allowed in ((0.5, 0.5), (None, 4e-4)):  # a thousand times the rounding may be missing
        judge = Judge(tol, False)
        judge.look(allowed / 2, 0.0, 4.0)
        assert judge.sure(allowed / 2001)
        assert not judge.sure(allowed / 1999)
    judge = Judge(None, True)
    assert math.isnan(judge.relative)
    judge.look(0.5, 0.0, 0.0)
    assert math.isnan(judge.relative)
    judge.look(4e-3, 0.0, 4.0)
    assert judge.at_the_end() is tr.Status.FINISHED
    assert judge.best == [0.5, 4e-3]
    same("judged gaps", found)


def test_a_gap_that_rests_within_rounding_of_the_tolerance_ends_a_run():
    for gap_, rounding, looks in ((0.31, 0.02, 6), (0.31, 0.009, None), (0.31, 0.2, 1)):
        judge = Judge(0.3, False)
        said = [judge.look(gap_, rounding, 4.0) for _ in range(10)]
        ends = next((k for k, status in enumerate(said, start=1) if status is not None), None)
        assert ends == looks
        assert ends is None or said[ends - 1] is tr.Status.PRECISION
    judge = Judge(0.3, False)
    assert not any(judge.look(0.32 * 0.995**k, 0.05, 4.0) for k in range(5))  # five looks may lower it by a tenth


@pytest.mark.parametrize(
    ("looks", "last", "stalled"), [(31, 0.91, True), (31, 0.9, False), (30, 0.95, False), (62, 0.95, True)]
)
def test_stalled_is_a_tenth_in_thirty_looks_or_half_of_all(looks, last, stalled):
    judge = Judge(None, True)
    judge.best = [1.0] * (looks - 1) + [last]
    assert judge._stalled() is stalled
    judge.best = [2.0] * 40 + [1.0] * 40 + [0.95]  # forty looks back it was twice as much
    assert judge._stalled() is True
    judge.best = [2.0] * 41 + [1.0] * 39 + [0.95]
    assert judge._stalled() is False


# ---- worth -----------------------------------------------------------------------------------------------------------


def test_what_a_point_is_worth_by_hand():
    x, rows = jnp.asarray(X), jnp.asarray(ROWS)
    found = worth.worth_on_rows(PROBLEM, x, rows)
    f, h = f_of(X), h_of(X)
    assert found.objective == pytest.approx(f.mean())
    np.testing.assert_allclose(found.constraints, h.mean(axis=0), rtol=1e-12)
    assert found.objective_error == pytest.approx(20 * EPS * np.abs(f).mean())
    np.testing.assert_allclose(found.errors, 20 * EPS * (np.abs(h).mean(axis=0) + LEVELS), rtol=1e-12)
    assert (found.measured_on, found.at_random, found.samples) == ("all 37 rows", False, None)
    found = worth.worth_on_samples(PROBLEM, x, rows, "things")
    assert found.objective_error == pytest.approx(2 * f.std(ddof=1) / np.sqrt(37))
    np.testing.assert_allclose(found.errors, 2 * h.std(axis=0, ddof=1) / np.sqrt(37), rtol=1e-12)
    np.testing.assert_allclose(found.constraints, h.mean(axis=0), rtol=1e-12)
    assert found.objective == pytest.approx(f.mean())
    assert (found.measured_on, found.at_random) == ("37 things, with two standard errors", True)
    assert found.samples is rows


def test_by_how_many_fresh_samples_a_point_is_measured(monkeypatch):
    ready = on_rows(tr.Generator(draw), batch_size=3)
    asked, sums = [], Summary(1.5, np.array([0.1, 0.2]), np.zeros(2), {}, 1.0)
    sampler = SimpleNamespace(n=None, fresh=lambda *given: asked.append(given), lately=lambda *given: None)
    ready = SimpleNamespace(
        sampler=sampler, plan=ready.plan._replace(draws=2, seeds=(7,)), names=["a", "b"], problem=None
    )
    for step in (1, 426, 427, 1706, 1707, 13654, 10**9):
        found = worth.worth_of(ready, None, step, sums)
    assert [n for _, n in asked] == [256, 256, 256, 512, 1024, 8192, 8192]
    assert {seed for seed, _ in asked} == {7}
    assert (found.objective, found.constraints.tolist()) == (1.5, [0.1, 0.2])
    assert np.isnan([found.objective_error, *found.errors]).all()
    assert len(found.errors) == 2
    assert found.at_random
    assert found.measured_on.startswith("the samples of the run: means of f(x_t, theta_t)")


def test_which_samples_show_that_no_point_is_feasible(monkeypatch):
    asked, seen = [], []
    sampler = SimpleNamespace(n=None, fresh=lambda *given: (asked.append(given), np.zeros((8192, 1)))[1])
    ready: Any = SimpleNamespace(sampler=sampler, problem=None, plan=SimpleNamespace(seeds=(7,)), names=["a", "b"])
    monkeypatch.setattr(worth, "conflict", lambda *given: (seen.append(given), {1: 0.5, 0: 2.0})[1])
    dual, measured = np.array([1.0, 2.0]), worth.Worth(0.0, dual_of := np.ones(2), 0.0, dual_of, "", True)
    start = "Every point of the domain violates b by 0.5 or a by 2 or more, as "

    def said(samples=None, learned=False):
        return worth.conflict_of(ready, None, dual, measured._replace(samples=samples, learned=learned))

    assert said() == said(np.zeros((4096, 1))) == start + "8,192 fresh samples show."
    assert asked == [(7, 8192)] * 2
    assert said(np.zeros((8192, 1))) == start + "8,192 fresh samples show."
    assert said(np.zeros((512, 1)), learned=True) == start + "the last 512 samples of the run show."
    assert len(asked) == 2
    assert [given[-1] for given in seen] == [False, False, False, True]
    monkeypatch.setattr(worth, "conflict", lambda *given: {})
    assert said() is None
    sampler.fresh = lambda *given: None
    assert said() is None
    sampler.n = 5
    assert said(np.zeros((8192, 1))) is None


# ---- samples that are alike --------------------------------------------------------------------------------------------


def alike(n, time, seed=0):
    """A normal process whose correlation falls by e in this time, around 1."""
    keep = np.exp(-1 / time)
    noise = np.random.default_rng(seed).normal(size=n) * np.sqrt(1 - keep**2)
    noise[0] /= np.sqrt(1 - keep**2)
    return 1 + np.asarray(lfilter([1], [1, -keep], noise))[:, None]


LEVEL = tr.Problem(lambda x, theta: -x[0], lambda x, theta: theta * x[0], tr.Box(0.0, 1.0, shape=1), levels=0.5)


@pytest.mark.parametrize(("time", "least", "most"), [(1e-3, 1.0, 1.0), (3, 4, 9), (30, 35, 90)])
def test_errors_count_that_neighbours_are_alike(time, least, most):
    rows = alike(8192, time)
    plain = worth.worth_on_samples(LEVEL, jnp.ones(1), rows, "things")
    found = worth.worth_on_the_last(LEVEL, jnp.ones(1), rows)
    assert found.constraints[0] == pytest.approx(plain.constraints[0])
    assert least <= (found.errors[0] / plain.errors[0]) ** 2 <= most  # 1, 2 and 20 times would be too little
    assert (found.note is None) is (time < 1)
    assert found.note is None or "neighbouring samples are alike" in found.note


def test_from_too_few_independent_samples_nothing_is_decided():
    found = worth.worth_on_the_last(LEVEL, jnp.zeros(1) + 0.1, alike(1024, 200))
    assert np.isinf(found.errors).all()
    assert "correlation time at least" in str(found.note)
    result: Any = SimpleNamespace(output="average", at_random=True)
    assert tr.Result.verdict_of(result, found.constraints[0], found.errors[0]).startswith("undecided")


# ---- margin and oscillation ------------------------------------------------------------------------------------------


def test_the_best_weights_are_nearly_those_of_the_slater_point():
    """min over the ball of max_i H_i, for two linear constraints, by a fine grid of weights."""
    nu, least = (np.asarray(v) for v in best_weights(PROBLEM, jnp.asarray(X), jnp.asarray(ROWS), jnp.ones(2)))
    slopes, at_zero = slopes_of().mean(axis=0), h_of(np.zeros(3)).mean(axis=0)
    grid = np.stack([np.linspace(0, 1, 2001), 1 - np.linspace(0, 1, 2001)], axis=1)
    values = grid @ at_zero - 2 * np.linalg.norm(grid @ slopes, axis=1)
    assert nu.sum() == pytest.approx(1.0)
    assert float(least) == pytest.approx(nu @ at_zero - 2 * np.linalg.norm(nu @ slopes), rel=1e-9)
    assert values.max() - 0.02 * abs(values.max()) <= float(least) <= values.max() + 1e-5
    same("best weights", {"weights": nu, "least": least})


class Shrinking(SimpleNamespace):
    """A method whose margin is 8 over the square root of the steps, and that is called c."""

    margin, c = "c", 3.0

    def tightening(self, steps):
        return 8 / np.sqrt(max(steps, 1))


def test_a_margin_and_the_room_there_is(monkeypatch):
    ready: Any = SimpleNamespace(method=Shrinking())
    found = {}
    for sigma in (1.0, 0.8, 0.79, 0.41, 0.4, 0.39, 0.2, 0.0, -1.0, np.inf):
        monkeypatch.setattr(margin, "_room", lambda *given: sigma)  # noqa: B023
        found[str(sigma)] = margin.margin_note(ready, None, 400, None)  # upsilon is 0.4
    ready.method.tightening = lambda steps: 0.4
    monkeypatch.setattr(margin, "_room", lambda *given: 0.5)
    found["constant"] = margin.margin_note(ready, None, 400, None)
    ready.method.tightening = lambda steps: 0.0
    found["none"] = margin.margin_note(ready, None, 400, None)
    same("margin notes", found)
    assert margin._steps_for(Shrinking(), 0.4) == 400
    assert margin._steps_for(Shrinking(), 8.0) == 1
    assert margin._steps_for(Shrinking(), 1e-12) is None


def test_of_what_the_room_is_known(monkeypatch):
    weights = np.array([0.5, 0.5])
    tangents = -0.7 + 0.02 * np.sqrt(3) * np.array([-1.0, 1.0, 1.0, -1.0]) / 2  # whose standard error is 0.01
    monkeypatch.setattr(margin, "best_weights", lambda problem, x, data, units: (weights, -0.7))
    monkeypatch.setattr(margin, "tangents_of", lambda problem, x, nu, data: (tangents, tangents))
    monkeypatch.setattr(margin, "float_dtype", lambda x: float)
    domain = SimpleNamespace(has_lmo=True, additive=True)
    ready: Any = SimpleNamespace(
        problem=SimpleNamespace(domain=domain, nested=False), names=["a"], sampler=SimpleNamespace(n=3, rows=1)
    )
    assert margin._room(ready, None, None) == 0.7
    ready.sampler.n = None
    assert margin._room(ready, None, None) == np.inf
    assert margin._room(ready, None, 1) == pytest.approx(0.75)
    ready.problem.nested = True
    assert margin._room(ready, None, 1) == np.inf
    ready.sampler.n = 3
    assert margin._room(ready, None, None) == 0.7
    for name in ("has_lmo", "additive"):
        setattr(domain, name, False)
        assert margin._room(ready, None, None) == np.inf
        setattr(domain, name, True)
    ready.names = []
    assert margin._room(ready, None, None) == np.inf


def swinging(h, lam, steps=None):
    """A trace whose means between rows are these."""
    at = np.arange(1, len(h) + 2) * 100 if steps is None else steps
    weight = np.concatenate([[3.0], 3.0 + np.cumsum(np.linspace(1, 2, len(h)))])
    gained = np.diff(weight)
    sums = {
        "a": np.concatenate([[0.0], np.cumsum(gained * h)]),
        "dual a": np.concatenate([[0.0], np.cumsum(gained * lam)]),
    }
    return pd.DataFrame({"step": at, "weight": weight} | {k: v / weight for k, v in sums.items()})


@pytest.mark.parametrize("own", [True, False])
def test_swings_are_told_from_noise(own):
    """Seven rows in the second half, hence six means; noise of 1 in a sample is 5 / sqrt(500) in a mean, five times."""
    method: Any = tr.CSOA() if own else tr.CSOA(eta0=1.0)
    ready: Any = SimpleNamespace(method=method, names=["a"], plan=SimpleNamespace(batch_size=5))
    samples = np.zeros((1024, 1))
    seen = worth.Worth(0.0, np.zeros(1), 0.0, np.array([2 / 32]), "", True, samples)
    up_down, four, three = (
        np.array([1, -1] * 6),
        np.array([1, -1] * 5 + [1, 1]),
        np.array([1, -1] * 4 + [-1, -1, -1, -1]),
    )
    edge, found = 5 / np.sqrt(500), {}
    for name, h, lam in (
        ("swings", 1.01 * edge * up_down, 2 + 0.51 * up_down),
        ("within noise", 0.99 * edge * up_down, 2 + 0.51 * up_down),
        ("still multiplier", 1.01 * edge * up_down, 2 + 0.49 * up_down),
        ("four times", 1.01 * edge * four, 2 + 0.6 * up_down),
        ("three times", 1.01 * edge * three, 2 + 0.6 * up_down),
        ("multiplier four times", 1.01 * edge * up_down, 2 + 1.2 * four),
        ("multiplier three times", 1.01 * edge * up_down, 2 + 1.2 * three),
    ):
        found[name] = oscillation.oscillation_note(ready, swinging(h, lam), seen)
    trace = swinging(1.01 * edge * up_down, 2 + 0.8 * up_down)
    found["five rows"] = oscillation.oscillation_note(ready, trace.tail(5), seen)
    found["six rows"] = oscillation.oscillation_note(ready, trace.tail(6), seen)
    found["no rows"] = oscillation.oscillation_note(ready, trace.head(0), seen)
    found["no samples"] = oscillation.oscillation_note(ready, trace, seen._replace(samples=None))
    assert [name for name, said in found.items() if said] == [
        "swings",
        "four times",
        "multiplier four times",
        "six rows",
    ]
    same(f"swings {'measured' if own else 'given'}", found)
    assert oscillation._alternations(np.array([1.0, -1.0, 1.0]), -1.0, 1.0) == 0
    assert oscillation._alternations(np.array([1.1, -1.1, 0.0, 1.1]), -1.0, 1.0) == 2


@pytest.mark.parametrize("rows", [np.repeat([[0.4], [0.6]], 2048, axis=0), np.full((4096, 1), 0.4)])
def test_samples_of_one_state_decide_nothing(rows):
    """A chain that rests for as long as the samples go back says nothing of its mean."""
    found = worth.worth_on_the_last(LEVEL, jnp.ones(1), rows)
    assert np.isinf(found.errors).all()
    assert "say as much as" in str(found.note)
