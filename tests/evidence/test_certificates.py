"""Numbers of certificates by hand: bounds, held-out rows, the certified pull, the gap in expectation, watched points."""

# What stands in the place of a problem, a run or a set has only what is asked of it:
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from core_cases import PROBLEM, ROWS
from scipy.stats import beta

import tightrope as tr
from tightrope._certify import _lowest, _population_gap
from tightrope.certificate import ConstraintBound
from tightrope.confidence import Anytime, bounded_upper, studentised_upper
from tightrope.evidence import certificates
from tightrope.evidence import constraint_bounds as bounds
from tightrope.evidence import held_out_rows as held_out
from tightrope.evidence import watched_point as watch
from tightrope.evidence.certificates import CertifiedPull, certified_pull, inner_point
from tightrope.evidence.constraint_bounds import Range, Terms
from tightrope.loop.prepare import prepare
from tightrope.problem.full_data import full_values
from tightrope.result import Pull, Status

MORE = np.random.default_rng(2).normal([1.0, -0.5, 0.2], 0.7, size=(60, 3))
X = jnp.array([0.3, 0.2, -0.1])
NAMES = ["first", "second"]


def h_of(x, rows, levels=(0.5, 0.4)):
    return np.stack([rows @ np.asarray(x) - levels[0], x[0] + 0.1 * rows[:, 1] - levels[1]], axis=1)


def refusal(call, *args, **options) -> str:
    with pytest.raises((ValueError, TypeError)) as caught:
        call(*args, **options)
    return f"{type(caught.value).__name__}: {caught.value}"


def test_ranges_as_they_may_be_given():
    read = bounds.read_ranges
    one, two, other = Range(-1.0, 2.0, False), Range(-1.0, 2.0, True), Range(0.0, 5.0, False)
    assert read(None, NAMES) == (None, None)
    assert read((-1, 2), NAMES) == (one, one)
    assert read({2, -1}, NAMES) == (two, two)
    assert read(frozenset({-1.0, 2.0}), NAMES) == (two, two)
    assert read({"second": (0, 5)}, NAMES) == (None, other)
    assert read([(-1, 2), None], NAMES) == (one, None)
    assert read(((-1, 2), {2, -1}), NAMES) == (one, two)
    assert read([[-1, 2], (0, 5)], NAMES) == (one, other)
    assert read([(0, 5)], ["only"]) == (other,)
    assert read((np.float32(-1), np.int64(2)), NAMES) == (one, one)
    wrong: list[Any] = [
        {"third": (0, 1)}, (0, 1, 2), [(0, 1)], 3, ((0, 1), (1, 0)), ((0, 1), (1, 1)), ((0, 1), (0, np.inf)), (-np.inf, 0),
        ((0, 1), {1}), ((0, 1), {1, 2, 3}), ((0, 1), (0, 1, 2)), ((0, 1), (1j, 2)), ([0, 1], [2, [3, 4]]),
        ((0, [1]), (0, 1)),
    ]  # fmt: skip
    for given in wrong:
        refusal(read, given, NAMES)


def test_columns_are_bounded_by_what_is_known_of_them():
    rng = np.random.default_rng(4)
    n, levels = 40, np.array([0.5, 0.25, 0.0, 0.0, 0.1])
    h = np.stack([
        rng.uniform(0, 1, n), rng.integers(0, 2, n) * 2.0 - 1, rng.normal(size=n), np.ones(n), rng.exponential(size=n) ** 4,
    ], axis=1) - levels  # fmt: skip
    known = (Range(0.0, 1.0, False), Range(-1.0, 1.0, True), None, None, None)
    slack = np.full(5, 2.0**-30)
    h[3, 0], h[4, 0] = -levels[0] - 2.0**-30, 1 - levels[0] + 2.0**-30  # out of its range by rounding, and just so
    h[7, 1] += 2.0**-30
    h[8, 1] = -1.25 - 2.0**-30
    kinds, uppers, heavy = bounds.bounds_of(h, levels, known, 0.9, False, slack)
    assert kinds == ["range", "two values", "asymptotic", "none", "asymptotic"]
    assert heavy.tolist() == [False, False, False, False, True]
    inside = np.clip(h[:, :1], -levels[0], 1 - levels[0])
    ones = int((h[:, 1] > 0).sum())
    share = beta.ppf(0.9, ones + 1, n - ones)
    expected = [
        *bounded_upper(inside, [-0.5], [0.5], 0.9), -1.25 + 2 * share, *studentised_upper(h[:, 2:3], 0.9), np.inf,
        *studentised_upper(h[:, 4:], 0.9),
    ]  # fmt: skip
    np.testing.assert_allclose(uppers, expected, rtol=1e-12)
    kinds, uppers, _ = bounds.bounds_of(h[:, :2], levels[:2], known[:2], 0.9, True, slack[:2])
    assert kinds == ["range", "range"]
    both = np.clip(h[:, :2], [-0.5, -1.25], [0.5, 0.75])
    at_all_times = Anytime.start(np.array([-0.5, -1.25]), np.array([0.5, 0.75])).add(both).upper(0.9)
    np.testing.assert_allclose(uppers, at_all_times, rtol=1e-12)
    h[0, 1] = 0.3
    assert refusal(bounds.bounds_of, h, levels, known, 0.9, False, slack) == (
        "ValueError: ranges says that a constraint takes two values only, and -1 to 1 were seen; give the pair (low, high) "
        "instead of the set."
    )
    assert bounds.kind_of(None, np.zeros(1), False) == "none"
    assert bounds.kind_of(None, np.arange(2.0), True) == "asymptotic"


def test_how_many_rows_it_would_take():
    assert bounds.rows_needed(-0.1, -0.01, 50) == 50
    assert bounds.rows_needed(-0.1, 0.0, 50) == 50
    assert bounds.rows_needed(-0.1, 0.2, 50) == pytest.approx(50 * 9)  # a width of 0.3 has to fall to 0.1
    assert bounds.rows_needed(0.0, 0.2, 50) == bounds.rows_needed(0.1, 0.2, 50) == np.inf
    assert bounds.rows_needed(-0.1, 0.2, 0) == np.inf


def constraints_of_all_kinds(x, theta):
    a, whole, flag = theta["a"], theta["whole"], theta["flag"]
    return jnp.stack([a[0] * x[0], 1.0 * whole, 1.0 * flag, x[1] + 0.0 * a[1], 1.0 * (a[1] > 1e4)])


KINDS = tr.Problem(
    lambda x, theta: x[0] * theta["a"][0], constraints_of_all_kinds, tr.Box(-1.0, 1.0, shape=2), levels=0.05
)
OF_ALL_KINDS = {"a": MORE[:, :2], "whole": np.full(60, 3), "flag": np.zeros(60, bool)}


def test_what_varies_is_told_by_the_program():
    x = jnp.array([0.5, -0.25])
    one = {"a": np.zeros(2), "whole": np.array(0), "flag": np.array(False)}
    ranges, known = bounds.follow(KINDS, x, one, (None,) * 5)
    assert known.tolist() == [False, False, False, True, False]
    event = Range(0.0, 1.0, True)
    assert ranges == (None, None, event, None, event)
    f, h = bounds.values_at(KINDS, x, OF_ALL_KINDS)
    np.testing.assert_allclose(f, 0.5 * MORE[:, 0], rtol=1e-12)
    np.testing.assert_allclose(h[:, 0], 0.5 * MORE[:, 0] - 0.05, rtol=1e-12)
    assert set(h[:, 1]) == {2.95}
    names = ["a", "whole", "flag", "still", "rare"]
    found = bounds.bound_constraints(KINDS, x, OF_ALL_KINDS, Terms(names, (None,) * 5, 0.9))
    assert [b.kind for b in found] == ["asymptotic", "none", "two values", "known", "two values"]
    assert found[0].upper == pytest.approx(float(studentised_upper(h[:, :1], 0.9)[0]), rel=1e-12)
    assert found[0].upper > float(studentised_upper(h[:, :1], 0.9)[0])  # rounding is counted
    assert found[3].upper == pytest.approx(-0.3)
    assert bounds.bound_constraints(KINDS, x, OF_ALL_KINDS, Terms([], (), 0.9)) == ()
    ranges = (None, Range(0.0, 5.0, False), Range(0.0, 1.0, True), None, Range(0.0, 1.0, True))
    with_ranges = bounds.bound_constraints(KINDS, x, OF_ALL_KINDS, Terms(names, ranges, 0.9))
    assert [b.kind for b in with_ranges] == ["asymptotic", "range", "two values", "known", "two values"]
    broken = OF_ALL_KINDS | {"a": np.where(np.arange(60)[:, None] == 17, np.nan, MORE[:, :2])}
    assert "17" in refusal(bounds.bound_constraints, KINDS, x, broken, Terms(names, ranges, 0.9))
    assert "range" in refusal(bounds.bound_constraints, KINDS, x, OF_ALL_KINDS, Terms(names, ranges, 0.9, anytime=True))


# ---- held-out rows ---------------------------------------------------------------------------------------------------


def test_marks_of_rows(monkeypatch):
    rows = {"a": MORE[:9], "b": np.arange(9), "empty": np.zeros((9, 0))}
    marks = held_out.marks_of(rows)
    assert (marks.of, len(marks.numbers), len(set(marks.numbers.tolist()))) == (9, 9, 9)
    more = marks.and_those({"a": MORE[9:12], "b": np.arange(3), "empty": np.zeros((3, 0))})
    assert (more.of, len(more.numbers)) == (12, 12)
    with monkeypatch.context() as patch:
        patch.setattr(held_out, "AT_ONCE", 7)  # two rows of three numbers
        np.testing.assert_array_equal(held_out.marks_of(rows).numbers, marks.numbers)
        patch.setattr(held_out, "KEPT_ROWS", 4)
        np.testing.assert_array_equal(held_out.marks_of(rows).numbers, marks.numbers[::3])
    assert held_out.marks_of({"empty": np.zeros((9, 0))}).numbers.tolist() == [0] * 9
    zeros = held_out.marks_of(np.array([[0.0, -0.0], [-0.0, 0.0]])).numbers
    assert zeros[0] == zeros[1]


def seen(numbers, of=None):
    return held_out.Marks(of or len(numbers), np.asarray(numbers, np.uint64))


@pytest.mark.parametrize(
    ("ones", "zeros", "same_rows"),
    [(10, 9, False), (11, 10, True), (5, 0, False), (1, 30, False), (4, 30, False), (5, 30, True)],
)
def test_the_same_rows_in_the_same_order_may_be_coincidence(ones, zeros, same_rows):
    """Of k ones and m zeros the chance is p^k q^m, which is to be below one in a million."""
    marks = seen([1] * ones + [0] * zeros)
    distinct, counts = np.unique(marks.numbers, return_counts=True)
    chance = np.prod([(c / counts.sum()) ** c for c in counts])
    assert bool(chance < 1e-6) is same_rows
    assert bool(held_out._same(marks, marks, distinct, counts)) is same_rows
    assert not held_out._same(marks, seen([*marks.numbers[1:], 7]), distinct, counts)
    assert not held_out._same(marks, marks._replace(of=99), distinct, counts)


# ---- points ----------------------------------------------------------------------------------------------------------


def bound(upper, estimate=-0.2, **more):
    return ConstraintBound("a", estimate, upper, "range", 7.0, **more)


def test_the_certified_pull_by_hand(monkeypatch):
    """x(a) = (1 - a) x + a s with a = max U(x)+ / (U(x)+ - U(s)), and what is asked for at which confidence."""
    asked = []

    def given(*found):
        answers = iter(found)
        monkeypatch.setattr(certificates, "bound_constraints", lambda *args: (asked.append(args), next(answers))[1])
        return certified_pull(PROBLEM, X, -X, MORE, Terms(NAMES, (None, None), 0.9))

    free = given((bound(-0.1), bound(0.0)))
    assert free is not None
    assert (free.a, free.bounds) == (0.0, (bound(-0.1), bound(0.0)))
    assert free.x is X
    found = given((bound(0.3, inflation=2.0, carried_by=(3,)), bound(-0.1)), (bound(-0.6), bound(-0.2)))
    assert found is not None
    assert [args[3].confidence for args in asked] == pytest.approx([0.91, 0.91, 0.99])
    assert [args[1] is X for args in asked] == [True, True, False]
    a = 0.3 / (0.3 + 0.6) + 64 * np.finfo(float).eps
    assert found.a == a
    np.testing.assert_allclose(found.x, (1 - 2 * a) * X, rtol=1e-12)
    means = h_of(np.asarray(found.x), MORE).mean(axis=0)
    expected = [("a", means[0], (1 - a) * 0.3 - a * 0.6, "range", 0.0, 2.0, (3,)),
                ("a", means[1], -(1 - a) * 0.1 - a * 0.2, "range", 0.0, 1.0, ())]  # fmt: skip
    for b, (name, mean, upper, *rest) in zip(found.bounds, expected, strict=True):
        assert (b.name, b.kind, b.rows_needed, b.inflation, b.carried_by) == (name, *rest)
        assert (b.estimate, b.upper) == pytest.approx((mean, upper), abs=1e-14)
    found = given((bound(0.3), bound(-0.1)), (bound(-0.6), bound(0.0)))  # 0 will do where nothing is above
    assert found is not None
    assert found.a == pytest.approx(1 / 3)
    less_sure = given((bound(0.3), bound(-0.1)), (dataclasses.replace(bound(-0.6), kind="asymptotic"), bound(0.0)))
    assert less_sure is not None
    assert [one.grade for one in less_sure.bounds] == ["asymptotic", "proven"]
    assert given((bound(0.3), bound(0.1)), (bound(-0.6), bound(0.0))) is None
    assert given((bound(0.3), bound(-0.1)), (bound(-0.6), bound(0.1))) is None
    assert given((bound(np.inf), bound(-0.1)), (bound(-0.6), bound(-0.1))) is None
    most = given((bound(1.0), bound(-0.1)), (bound(-1e-20), bound(-0.1)))
    assert most is not None
    assert most.a == 1.0


def test_levels_are_lowered_by_widths_of_bounds_on_as_many_rows_as_judge():
    """Four times as many make them half as wide."""
    asked = []

    def again(problem):
        asked.append(np.asarray(problem.levels))
        return SimpleNamespace(pull=1, x="found")

    for n in (37, 148):
        assert inner_point(PROBLEM, X, ROWS, n, Terms(NAMES, (None, None), 0.9), again) == "found"
    few, many = np.array([0.5, 0.4]) - asked
    np.testing.assert_allclose(many, few / 2, rtol=1e-9)
    assert np.all(few > 0)


def test_the_gap_in_expectation_by_hand():
    """Batches are tenths of the rows in a fixed order; each lower bound is of the Lagrangian, begun at x."""
    rows = np.random.default_rng(6).normal(size=(207, 3))
    dual, asked = np.array([0.7, -0.3]), []

    def lowest(problem, x, batch):
        asked.append(np.asarray(batch))
        lam = np.array([0.7, 0.0])
        value = full_values(problem, x, jnp.asarray(batch))[0]
        f = ((np.asarray(X) - batch) ** 2).sum(1).mean() / 2
        assert float(value) == pytest.approx(f + lam @ h_of(np.asarray(X), batch).mean(axis=0))
        return f - 0.1 * len(asked)

    found = _population_gap(PROBLEM, X, dual, rows, 0.9, lowest)
    assert found == pytest.approx(float(studentised_upper(0.1 * np.arange(1.0, 11.0), 0.9)), rel=1e-9)
    order = np.random.default_rng(0).permutation(207)[:200].reshape(10, 20)
    assert all(np.array_equal(batch, rows[at]) for batch, at in zip(asked, order, strict=True))
    assert _population_gap(PROBLEM, X, dual, rows, 0.9, lambda *a: 9e9) == 0.0
    assert _population_gap(PROBLEM, X, dual, rows[:199], 0.9, lowest) is None
    assert _population_gap(PROBLEM, X, np.array([np.nan, 1.0]), rows, 0.9, lowest) is None
    assert _population_gap(PROBLEM, X, dual, rows, 0.9, lambda *a: None) is None


@pytest.mark.parametrize("kinks", [False, True])
def test_a_lower_bound_of_a_batch_is_one_and_close(kinks: bool):
    rows = np.random.default_rng(7).normal(1.0, 1.0, size=(200, 3)).astype(np.float32)
    ball, x = tr.L2Ball(2.0, shape=3), jnp.zeros(3)
    loss = (lambda x, theta: jnp.abs(x - theta).sum()) if kinks else (lambda x, theta: ((x - theta) ** 2).sum() / 2)
    problem = tr.Problem(loss, None, ball)
    point = np.median(rows, axis=0) if kinks else rows.mean(axis=0)
    least = float(full_values(problem, jnp.asarray(point), jnp.asarray(rows))[0])
    found = _lowest(problem, x, rows)
    assert found is not None
    assert least - 0.01 <= found <= least + 1e-5
    assert _lowest(problem, x, rows * np.nan) is None
    known = tr.Problem(lambda x, theta: loss(x["a"], theta), None, tr.Product({"a": tr.LinfBall(3.0, shape=3)}))
    found = _lowest(known, {"a": x}, rows)
    assert found is not None
    assert least - 0.01 <= found <= least + 1e-5


def test_without_a_form_for_solvers_a_run_bounds_a_batch():
    rows = np.random.default_rng(7).normal(1.0, 1.0, size=(200, 600)).astype(np.float32)
    # too many coordinates
    problem = tr.Problem(lambda x, theta: ((x - theta) ** 2).sum() / 2, None, tr.L2Ball(2.0, shape=600))
    mean = rows.mean(axis=0)
    least = ((2.0 * mean / np.linalg.norm(mean) - rows) ** 2).sum(axis=1).mean() / 2
    found = _lowest(problem, jnp.zeros(600), rows)
    assert found is not None
    assert least * 0.99 <= found <= least * (1 + 1e-5)


def test_a_watched_point_by_hand():
    ranges = (Range(-6.0, 6.0, False), Range(-1.0, 1.0, False))
    begun = watch.Watch.begin(PROBLEM, X, NAMES, ranges, 0.9, 2)
    assert begun.levels.tolist() == [0.5, 0.4]
    after = begun.after(PROBLEM, MORE[:5]).after(PROBLEM, MORE[5:13])
    h = h_of(np.asarray(X), MORE[:13]) + [0.5, 0.4]
    alike = Anytime.start(np.array([-6.0, -1.0]), np.array([6.0, 1.0])).add(h)
    found = after.certificate(NAMES)
    spent = 1 - 0.1 / 6
    np.testing.assert_allclose([b.upper for b in found.constraints], alike.upper(spent) - [0.5, 0.4], rtol=1e-9)
    np.testing.assert_allclose([b.estimate for b in found.constraints], h.mean(axis=0) - [0.5, 0.4], rtol=1e-9)
    for b in found.constraints:
        assert (b.kind, b.accepted, b.carried_by) == ("range", False, ())
        assert b.rows_needed == bounds.rows_needed(b.estimate, b.upper, 13)
    assert [b.name for b in found.constraints] == NAMES
    assert (found.samples, found.anytime, found.confidence, found.x) == (13, True, 0.9, X)
    assert begun.after(PROBLEM, MORE[:1]).seen.n == 1
    assert "on second needs the range of h" in refusal(watch.Watch.begin, PROBLEM, X, NAMES, (ranges[0], None), 0.9, 1)


# ---- judges ----------------------------------------------------------------------------------------------------------


def finished(names, **changed) -> tr.Result:
    """The result of a run that went well."""
    none = pd.Series([0.0] * len(names), index=pd.Index(names))
    return tr.Result(**{
        "x": X, "output": "average", "mean": X, "last": X, "dual": np.zeros(2), "dual_last": np.zeros(2), "objective": 1.0,
        "objective_error": 0.25, "constraints": none, "errors": none, "measured_on": "", "at_random": False,
        "trace": pd.DataFrame(), "status": Status.FINISHED, "message": "", "cost": None, "method": tr.CSOA(), "state": None,
        "point": "the mean", "notes": ("kept",), "lower": 1.0,
    } | changed)  # fmt: skip


class Case:
    """A run that is ready, and the held-out rows that judge it."""

    def __init__(self, monkeypatch):
        self.ready = prepare(PROBLEM, ROWS, tr.CSOA(), steps=5, passes=None, batch_size=None, seeds=(0,), x0=None)
        self.judges = certificates.Judges(self.ready.problem, self.ready.x, self.ready.sampler, MORE, 0.9, (-9.0, 9.0))
        self.monkeypatch, self.asked = monkeypatch, []

    def pulled(self, found, again: Any = "again", inner: Any = "inner", inside=None, **changed):
        """What becomes of a result where an inner point and a certified pull are found."""
        self.asked = []
        self.monkeypatch.setattr(certificates, "inner_point", lambda *given: (self.asked.append(given), inner)[1])
        self.monkeypatch.setattr(certificates, "certified_pull", lambda *given: (self.asked.append(given), found)[1])
        return self.judges.pulled(finished(self.ready.names, **changed), again, inside)


def test_a_certified_result_in_all_its_fields(monkeypatch):
    case = Case(monkeypatch)
    x, inner, uppers = 0.5 * X, -X, (bound(-0.1), bound(-0.2))
    earlier = Pull(X, 0.5, 1.0, 2.0, -X)
    told = {"pull": earlier, "notes": ("kept", str(earlier)), "at_random": True}  # nothing of which holds any longer
    found, asked = case.pulled(CertifiedPull(x, 0.25, uppers), inner=inner, **told), case.asked
    assert found.notes == ("kept",)
    assert found.pull is not None
    assert found.certificate is not None
    assert asked[0][1:4] == (X, case.ready.sampler.rows, 60)
    assert asked[0][4:] == (case.judges.terms, "again")
    assert case.judges.terms[:3] == (case.ready.names, (Range(-9.0, 9.0, False),) * 2, 0.9)
    assert asked[1][1:4] == (X, inner, case.judges.rows)
    f = [((np.asarray(p) - ROWS) ** 2).sum(1).mean() / 2 for p in (x, X, inner)]
    pulled = Pull(x, 0.25, f[0] - f[1], 0.25 * (f[2] - f[1]), inner)
    assert found.pull[1:4] == pytest.approx(pulled[1:4], rel=1e-9)
    assert (found.output, found.point) == ("certified", "the mean, pulled until the held-out rows certify it")
    assert found.message == f"The certified point was {pulled}"
    assert found.status is Status.CERTIFIED
    assert found.objective == pytest.approx(f[0])
    h = h_of(np.asarray(x), ROWS)
    size = np.abs(h).mean(axis=0) + [0.5, 0.4]
    assert list(found.constraints.index) == list(found.errors.index) == case.ready.names
    np.testing.assert_allclose(found.constraints, h.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(found.errors), 20 * np.finfo(float).eps * size, rtol=1e-9)
    assert found.objective_error == pytest.approx(20 * np.finfo(float).eps * f[0])
    assert (found.measured_on, found.at_random) == ("all 37 rows", False)
    assert found.seen.of == 60
    again = case.pulled(CertifiedPull(x, 0.25, uppers), inner=inner, seen=held_out.marks_of(ROWS))
    assert (again.seen.of, len(again.seen.numbers)) == (97, 97)
    assert again.objective is not None
    assert found.x is x
    assert found.certificate.constraints == uppers
    assert (found.certificate.confidence, found.certificate.samples) == (0.9, 60)
    assert found.certificate.gap == found.gap
    assert found.certificate.anytime is False
    assert found.certificate.x is x
    alone = case.pulled(CertifiedPull(X, 0.0, uppers), inner=inner)
    assert (alone.output, alone.message, alone.point) == ("certified", "Nothing had to be pulled.", "the mean")


def test_what_becomes_of_a_status(monkeypatch):
    case = Case(monkeypatch)
    some, uppers = CertifiedPull(X, 0.0, (bound(-0.1),)), (bound(0.1),)
    monkeypatch.setattr(certificates, "bound_constraints", lambda *given: uppers)
    for status in Status:
        not_there = case.pulled(None, status=status)
        assert not_there.certificate is not None
        assert not_there.certificate.constraints == uppers
        assert not not_there.status.proven
        assert case.pulled(some, status=status).status.certified == status.ended_well
    asymptotic = dataclasses.replace(bound(-0.1), kind="asymptotic")
    for accepted, status in ((True, Status.ASYMPTOTIC), (False, Status.NOT_CERTIFIED)):
        there = case.pulled(CertifiedPull(X, 0.0, (dataclasses.replace(asymptotic, accepted=accepted),)))
        assert there.status is status
    case.pulled(None, again=None, inside=np.array([0.1, 0.2, 0.3]))
    np.testing.assert_array_equal(case.asked[0][2], [0.1, 0.2, 0.3])
    assert (case.pulled(some, inner=None).message, len(case.asked)) == (certificates._NO_INNER, 1)


def test_judges_refuse_what_they_cannot_judge_by():
    ready = prepare(PROBLEM, ROWS, tr.CSOA(), steps=5, passes=None, batch_size=None, seeds=(0,), x0=None)
    at = ready.problem, ready.x, ready.sampler
    assert "are also among the rows" in refusal(certificates.Judges, *at, ROWS, 0.9, None)
    assert "confidence" in refusal(certificates.Judges, *at, MORE, 1.0, None)
    assert "ranges" in refusal(certificates.Judges, *at, MORE, 0.9, 3)
    assert "shapes" in refusal(certificates.Judges, *at, MORE[:, :2], 0.9, None)
