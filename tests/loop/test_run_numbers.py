"""Numbers and sentences around a run: what is prepared, which method is chosen, sums over steps, records, pace, checkpoints.
By hand where a formula is short; the rest as kept in tests/golden (see there)."""

# What stands in the place of a problem, a run or a set has only what is asked of it:
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

import contextlib
import dataclasses
import itertools
import math
import sys
import time
import types
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import BALL, CSOA, PROBLEM, ROWS, Mute, draw
from golden import same

import tightrope as tr
from tightrope.evidence.gap import Bound
from tightrope.evidence.stopping import Judge
from tightrope.loop import checkpoint, choose, prepare, progress, run, steps
from tightrope.loop.driver import Driver, NotFiniteError, OneRun, Position, refresh_period
from tightrope.loop.run import Options, Outcome, _Run, record_steps
from tightrope.methods import METHODS, Cost, Info, Method, Refreshing
from tightrope.methods.base import Inner, Proof
from tightrope.problem.problem import Split
from tightrope.result import Status
from tightrope.sampling import Buffer, Plan
from tightrope.sampling.all_rows import UnreadableError
from tightrope.sets import LowRankBall, Shape
from tightrope.tree import Mean

STREAM = tr.Stream(lambda skip=0: iter([ROWS[skip:]]))
BALLS = tr.NuclearBall(1.0, shape=(3, 2))
FACTORED = LowRankBall(1.0, (3, 2), rank=2)


@tr.pytree
class Plain(Mute):
    shape: Any = tr.static(default=Shape(3))


DOMAINS = {"ball": BALL, "nuclear": BALLS, "factored": FACTORED, "plain": Plain(), "box": tr.Box(0.0, 1.0, shape=2)}


def refusal(call, *args, **options) -> str:
    with pytest.raises((ValueError, TypeError)) as caught:
        call(*args, **options)
    return f"{type(caught.value).__name__}: {caught.value}"


def prepared(data: Any = ROWS, method: Any = CSOA, problem=PROBLEM, **options):
    settings = {"steps": 5, "passes": None, "batch_size": None, "seeds": (0,), "x0": None} | options
    return prepare.prepare(problem, data, method, **settings)


# ---- which method ----------------------------------------------------------------------------------------------------


def test_what_auto_means():
    found = {}
    for domain in ("ball", "nuclear", "factored"):
        for rows in (True, False):
            for d, n in ((200, 50), (201, 50), (500, 50), (501, 50), (1000, 50), (1001, 50), (200, 51)):
                for lacks in (None, "curvature"):
                    for more in ({}, {"steps": True}, {"around": False}, {"nested": True}, {"values": False}):
                        asked = choose.Asked(DOMAINS[domain], rows, d, n, lacks=lambda: lacks, **more)  # noqa: B023
                        method, why = choose.automatic(asked)
                        said = f"{method.name}: {why}"
                        found.setdefault(said, []).append(f"{domain} {rows} {d} {n} {lacks} {list(more)}")
                        second = choose.second_choice(method, asked)
                        found.setdefault(f"{said} Then {second and second.name}", []).append(f"{d} {n} {list(more)}")
    for nested in (True, False):
        for name, domain in DOMAINS.items():
            method = choose.automatic_for_a_fed_run(domain, nested)
            found.setdefault(f"fed: {method.name} {method.anytime}", []).append(f"{name} {nested}")
    same("chosen methods", found)


def test_why_methods_do_not_fit():
    found: dict[str, Any] = {}
    plain = {"rows": True, "constraints": 1, "exact": True, "values": True, "endless": False, "nested": False}
    others = [{}, {"rows": False}, {"constraints": 2}, {"constraints": 0}, {"constraints": None}, {"exact": False}]
    others += [{"values": False}, {"endless": True}, {"nested": True}]
    some = "bundle", "cfw-csoa", "cscgd", "csoa", "fw-csoa", "svrg-csoa", "affine-fw", "one-projection", "sfw", "sqp"
    one = type("One", (tr.CSOA,), {"title": "One", "needs": frozenset({"one_constraint"})})
    for name, kind in [*((name, METHODS[name]) for name in some), ("one", one)]:
        for where, domain in DOMAINS.items():
            for other in others:
                said = choose.misfit(kind, domain, **(plain | other))
                found.setdefault(str(said).replace(kind.title, "IT"), []).append(f"{name} {where} {other}")
        for lacks in (None, "second derivatives", "curvature", "kinks"):
            said = choose.missing(kind, lambda: lacks)  # noqa: B023
            found.setdefault(str(said).replace(kind.title, "IT"), []).append(f"{name} {lacks}")
        found.setdefault(f"needs rows: {choose.needs_rows(kind)} {choose.needs_rows(kind())}", []).append(name)
    # the sentences, and a mark of who is told each
    same("misfits", {said: [len(who), checkpoint.digest(*who)[:16]] for said, who in found.items()})
    assert choose.misfit(tr.CSOA(), BALLS, rows=False) is None


def test_names_of_methods_are_read():
    asked = choose.Asked(BALL, True, 3, 2)
    assert choose.resolve_method("CSOA", asked)[1] == ()
    assert choose.resolve_method(CSOA, asked) == (CSOA, ())
    method, notes = choose.resolve_method("auto", asked)
    assert (method.name, len(notes)) == ("bundle", 1)
    wrong = {"near": "cso", "far": "zzzzzzzzz", "none": None, "number": 3}
    said = {
        name: refusal(choose.resolve_method, given, asked).replace(", ".join(METHODS), "ALL")
        for name, given in wrong.items()
    }
    said["grids"] = refusal(choose.refuse_grids, tr.CSOA(eta0=np.array([1.0, 2.0])))
    choose.refuse_grids(CSOA)
    same("refused methods", said)


# ---- what is prepared ------------------------------------------------------------------------------------------------


def test_sizes_seeds_and_steps_are_read():
    sizes = prepare._batch_sizes
    assert sizes(3) == (3, None)
    assert sizes((3, 5)) == sizes((np.int64(3), 5)) == (5, (3, 5))
    assert sizes((5, 3)) == (5, (5, 3))
    assert sizes((3, 3)) == (3, None)
    assert [prepare._checked_seed(seed) for seed in (0, np.int32(7), 2**32 - 1)] == [0, 7, 2**32 - 1]
    rows, stream = tr.Rows(ROWS), STREAM
    ask = prepare._steps
    assert ask(7, None, rows, CSOA, 1) == 7
    assert ask(2**31 - 1, None, rows, CSOA, 1) == 2**31 - 1
    assert ask(None, 2.0, rows, CSOA, 1) == 74
    assert prepare.default_batch(CSOA, None) == prepare.default_batch(CSOA, 37) == 1
    assert prepare.default_batch(tr.SVRGCSOA(), 37) == tr.SVRGCSOA().default_batch(37)
    assert prepare.default_batch(tr.SVRGCSOA(), None) == 1
    for name, kind in METHODS.items():
        if kind.full_batch:
            assert prepare.default_batch(kind(), 37) == 37, name
    nowhere = SimpleNamespace(shape=None, name="It", has_projection=False, contains=lambda x: False)
    cornered: Any = SimpleNamespace(domain=nowhere)
    wrong = {
        "three sizes": lambda: sizes((1, 2, 3)), "no size": lambda: sizes(0), "half a size": lambda: sizes(1.5),
        "seed": lambda: prepare._checked_seed(-1), "large seed": lambda: prepare._checked_seed(2**32),
        "true": lambda: prepare._checked_seed(True), "half": lambda: prepare._checked_seed(0.5),
        "neither": lambda: ask(None, None, rows, CSOA, 1), "both": lambda: ask(1, 1.0, rows, CSOA, 1),
        "too many": lambda: ask(2**31, None, rows, CSOA, 1), "passes": lambda: ask(None, 1.0, stream, CSOA, 1),
        "no passes": lambda: ask(None, 0.0, rows, CSOA, 1), "endless": lambda: ask(None, math.inf, rows, CSOA, 1),
        "many passes": lambda: ask(None, 2.0**31 / 37, rows, CSOA, 1), "nothing": lambda: ask(0, None, rows, CSOA, 1),
        "no problem": lambda: prepared(problem=3), "nested": lambda: prepared(x0=3.0), "x0": lambda: prepared(x0=np.ones(2)),
        "complex": lambda: prepared(x0=1j * np.ones(3)), "nan": lambda: prepared(x0=np.array([0, np.nan, 0])),
        "start": lambda: prepared(x0=np.zeros(3), warm_start=3), "warm": lambda: prepared(warm_start=3),
        "outside": lambda: prepare._starting_point(cornered, np.ones(3), None),
        "multipliers": lambda: prepare._warm_multipliers(SimpleNamespace(dual_last=np.zeros(3)), 2, float),
    }  # fmt: skip
    same("refused settings", {name: refusal(call) for name, call in wrong.items()})


def test_everything_that_is_prepared():
    ready = prepared(batch_size=(2, 3), seeds=(4, 6), x0=np.array([0, 1, 0]))
    assert ready.plan == Plan((4, 6), 1, 3, 5)
    assert (ready.sizes, ready.steps, ready.names, ready.notes) == ((2, 3), 5, ["h[0]", "h[1]"], ())
    np.testing.assert_array_equal(ready.x, [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(ready.lam, [0.0, 0.0])
    fewer = ready.within(2.0)
    assert (fewer.steps, fewer.plan.steps) == (24, 24)
    assert ready.without_rows().sampler.n is None
    two = prepared(method=tr.CSOA(eta0=np.array([1.0, 2.0])), grids=True)
    assert float(two.method_at(1).eta0) == 2.0
    warm = prepared(
        warm_start=SimpleNamespace(where_to_go_on=np.array([0.1, 0.0, 0.0]), dual_last=np.array([1.0, 2.0]))
    )
    np.testing.assert_array_equal(warm.lam, [1.0, 2.0])
    np.testing.assert_array_equal(warm.x, [0.1, 0.0, 0.0])
    with pytest.warns(UserWarning, match="x0 is outside the domain L2Ball; starting at its projection") as warned:
        outside = prepared(x0=np.array([4.0, 0.0, 0.0]))
    np.testing.assert_allclose(outside.x, [2.0, 0.0, 0.0])
    assert warned[0].filename == __file__  # the user's call of minimize
    float32 = prepare.checked_point("x", [1, 2], None, jnp.float32)
    assert float32[0].dtype == jnp.float32
    assert prepare.checked_point("x", True, None).dtype == float


@pytest.mark.parametrize(
    ("gib", "have", "refused"),
    [(4.0, 1, False), (4.1, 1, True), (4.1, 5, False), (2.0**20, 2**60, False), (2.0**20 + 1, 2**60, True)],
)
def test_points_that_do_not_fit_into_memory(gib, have, refused, monkeypatch):
    monkeypatch.setattr(prepare, "_memory", lambda: have * 2**30)
    leaf = SimpleNamespace(size=int(gib * 2**27), dtype=np.dtype(float))
    if refused:
        said = refusal(prepare._refuse_too_large, [leaf])
        assert said.startswith(f"ValueError: The domain's points have {leaf.size:,} coordinates, {gib:,.0f} GiB each")
    else:
        prepare._refuse_too_large([leaf])


class Tight:
    """A method with a margin c."""

    margin, title = "c", "Tight"

    def __init__(self, c):
        self.c = c

    def tightening(self, steps):
        return self.c / steps


def test_default_margins_give_way_and_given_ones_are_refused():
    method, notes = prepare._default_tightening(Tight(c=8.0), 1.0, 10, ("before",))
    assert method.c == pytest.approx(5.0)  # 0.8 of 1, half of which is 0.5
    assert notes == ("before", "c was set to 5, half of the room that the two-sided constraint leaves.")
    tight: Any = Tight(c=5.0)
    assert prepare._default_tightening(tight, 1.0, 10, ()) == (tight, ())
    prepare._check_tightening(Tight(c=5.0), 1.0, 10)
    with pytest.warns(UserWarning, match="upsilon is") as warned:
        prepare._check_tightening(Tight(c=5.0 * (1 + 2e-9)), 1.0, 10)
    said = {"half": str(warned[0].message), "all": refusal(prepare._check_tightening, Tight(c=10.0), 1.0, 10)}
    with pytest.warns(UserWarning, match="at most half"):
        prepare._check_tightening(Tight(c=9.99), 1.0, 10)
    same("tightenings", said)


def test_a_given_margin_is_checked_where_a_run_is_prepared():
    two_sided = tr.Problem(lambda x, theta: jnp.sum(x), tr.two_sided(lambda x, theta: x[:1]), BALL, levels=0.5)
    with pytest.raises(ValueError, match=r"has room for 0\.5"):
        prepared(problem=two_sided, method=tr.CSOA(eta0=1.0, upsilon0=9.0))
    with pytest.warns(UserWarning, match="at most half of that") as warned:
        prepared(problem=two_sided, method=tr.CSOA(eta0=1.0, upsilon0=0.9))
    assert warned[0].filename == __file__


def test_notes_on_numbers():
    quiet: Any = SimpleNamespace(narrowed=False)
    problem: Any = SimpleNamespace(oracle=None)
    assert prepare._numeric_notes(problem, quiet) == ()
    problem.oracle = SimpleNamespace(numpy=True)
    assert [note[:24] for note in prepare._numeric_notes(problem, SimpleNamespace(narrowed=True))] == [
        "the data was float64 and", "the oracle is a NumPy fu",
    ]  # fmt: skip
    problem.oracle.numpy = False
    assert prepare._numeric_notes(problem, quiet) == ()


# ---- sums over steps -------------------------------------------------------------------------------------------------


class At(NamedTuple):
    x: Any
    lam: Any


@tr.pytree
class Adds(Method):
    """A method whose point is a sum of all samples so far."""

    title = "Adds"
    cost = Cost(samples=1)
    averages = True

    def init(self, problem, x, lam, horizon):
        return At(x, lam)

    def step(self, problem, state, theta):
        x = state.x + jnp.sum(theta)
        info = Info(x, state.lam + x[0], jnp.sin(x[0]), jnp.cos(x), 0.5 + jnp.abs(jnp.sin(x[0])), {"last": x[0]})
        return At(x, state.lam), info


class Same:
    """A sampler whose buffer has the samples themselves."""

    def pick(self, items):
        return items


jax.tree_util.register_pytree_node(Same, lambda s: ((), None), lambda *given: Same())


def by_hand(x, theta, group=64):
    """Sums of weighted terms in groups of 64, each group entering the total by Kahan's summation; in plain Python."""
    total = lost = recent = np.zeros(5)
    for k, value in enumerate(theta, 1):
        x = x + value
        weight = 0.5 + abs(np.sin(x))
        recent = recent + weight * np.array([x, 1.0, np.sin(x), np.cos(x), x])
        if k % group == 0:
            term = recent - lost
            new = total + term
            total, lost, recent = new, (new - total) - term, np.zeros(5)
    return total, recent, x


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_chunks_of_any_length_sum_in_groups_of_64(platform, monkeypatch):
    """On both kinds of loops: wherever chunks begin and end, sums are those of one chunk, bit for bit."""
    monkeypatch.setattr(steps, "platform", lambda: platform)
    method, variant = Adds(), steps.Variant()
    theta = np.random.default_rng(3).normal(size=(200, 1, 1)) + 1e-3
    begun = steps.Carry(
        At(jnp.zeros(1), jnp.zeros(1)), steps.Totals(Mean.zeros_like(jnp.zeros(1)), Mean.zeros_like(jnp.zeros(4)))
    )
    take = jax.jit(
        lambda carry, offset, first, count: steps.take_steps(
            method, None, Same(), carry, theta, offset, first, count, variant
        )
    )

    def after(cuts):
        carry, record = begun, {}
        for first, last in itertools.pairwise(cuts):
            carry, record = take(carry, first, first, last - first)
        return carry, record

    for end in (1, 63, 64, 65, 128, 193, 200):
        total, recent, x = by_hand(0.0, theta[:end, 0, 0])
        carry, record = after([0, end])
        sums = carry.totals
        np.testing.assert_allclose(np.concatenate([sums.x.total, sums.scalars.total]), total, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(np.concatenate([sums.x.recent, sums.scalars.recent]), recent, rtol=1e-12, atol=1e-12)
        assert np.all(np.abs(np.concatenate([sums.x.lost, sums.scalars.lost])) <= 1e-12)
        assert float(record["last"]) == pytest.approx(x)
        for middle in {1, 40, 63, 64, 65, 100, 127, 128, 130, end - 1} & set(range(1, end)):
            for a, b in zip(jax.tree.leaves(after([0, middle, end])), jax.tree.leaves((carry, record)), strict=True):
                np.testing.assert_array_equal(a, b)
    moved, _ = take(begun, 10, 64, 5)  # samples from a place in the buffer on, whatever the step
    assert float(moved.state.x[0]) == pytest.approx(theta[10:15].sum())


def test_batches_and_means_by_hand():
    theta = jnp.arange(24.0).reshape(2, 2, 6)  # steps, draws, batch
    one, two = Adds(), dataclasses.replace(Adds())
    both = steps._samples(Same(), one, theta, 1, steps.Variant((2, 4)))
    assert isinstance(both, Split)
    assert [part.tolist() for part in both] == [[12, 13], [12, 13, 14, 15]]
    kind = type("Two", (Adds,), {"cost": Cost(samples=2)})
    pair = steps._samples(Same(), kind.__new__(kind), theta, 1, steps.Variant())
    assert [part.tolist() for part in pair] == [theta[1, 0].tolist(), theta[1, 1].tolist()]
    info = Info(jnp.array([2.0]), jnp.array([3.0, 4.0]), jnp.array(5.0), jnp.array([6.0, 7.0]), 0.5)
    track = steps.Variant(None, lambda x: {"b": 10 * x[0], "a": x[0]})
    assert steps._scalars(info, track).tolist() == [0.5, 2.5, 1.0, 10.0, 3.0, 3.5, 1.5, 2.0]
    assert steps.track_names(track, jnp.ones(1)) == ["a", "b"]
    assert steps.track_names(steps.Variant(), jnp.ones(1)) == []
    sums = Mean(np.array([0.4, 1.0, 2.0, 0.2, -0.4]), np.zeros(5), np.array([0.1, 0.25, 0.5, 0.05, -0.1]))
    found = steps.summarise(sums, 1, ["a"])
    assert (found.objective, found.tracked["a"], found.h[0], found.lam[0], found.weight) == pytest.approx(
        (2.5, 5.0, 0.5, -1.0, 0.5)
    )
    assert np.isnan(steps.summarise(Mean(np.zeros(4), np.zeros(4), np.zeros(4)), 1, []).objective)
    state = At(jnp.array([9.0]), None)
    x = Mean(jnp.array([3.0]), jnp.zeros(1), jnp.array([1.0]))
    carry = steps.Carry(state, steps.Totals(x, Mean(jnp.array([1.5]), jnp.zeros(1), jnp.array([0.5]))))
    assert steps.average(carry).tolist() == [2.0]
    light = carry._replace(totals=steps.Totals(x, Mean(jnp.array([0.25]), jnp.zeros(1), jnp.array([0.25]))))
    assert steps.average(light).tolist() == [8.0]
    nothing = steps.Carry(state, steps.Totals(x, Mean(jnp.zeros(1), jnp.zeros(1), jnp.zeros(1))))
    assert steps.average(nothing).tolist() == [9.0]
    assert steps.output(two, carry, "last").tolist() == [9.0]
    assert steps.output(two, carry, "average").tolist() == [2.0]
    assert steps.running_mean(two, carry).tolist() == [2.0]
    assert "keeps no mean" in refusal(steps.refuse_mean, SimpleNamespace(averages=False, title="It"))
    steps.refuse_mean(two)
    for wrong in (lambda x: [x[0]], lambda x: {"a": x}):
        assert "expected a dict of scalars" in refusal(steps.track_names, steps.Variant(None, wrong), jnp.ones(1))


# ---- the driver and the run around it --------------------------------------------------------------------------------


def test_when_a_look_is_due():
    taken = []
    driver = Driver(None, SimpleNamespace(take=lambda *given: taken.append(given)), 4)
    assert [driver.refresh_due(step) for step in range(9)] == [True, False, False, False] * 2 + [True]
    for step, end in ((0, 10), (3, 10), (4, 6), (5, 8)):
        driver.take(step, end)
    assert taken == [(0, 4), (3, 1), (4, 2), (5, 3)]
    free = Driver(None, SimpleNamespace(take=lambda *given: taken.append(given)))
    assert not free.refresh_due(0)
    free.take(3, 10)
    assert taken[-1] == (3, 7)
    assert refresh_period(CSOA) is None
    ready = prepared(batch_size=(2, 3), steps=6)
    program = OneRun(ready, None)
    assert program.variant == steps.Variant((2, 3), None)


@pytest.mark.parametrize(
    ("total", "points"), [(1, 60), (7, 4), (100, 0), (100, 1), (1000, 10), (10**6, 9), (5, 60), (64, 3)]
)
def test_recorded_steps(total, points):
    same(f"records {total} {points}", {"steps": record_steps(total, points)})


class Watched(Refreshing):
    """A method whose proofs and estimates are given."""

    title, name = "Watched", "watched"
    given: Any = None
    estimate: Any = None

    def proof(self, state):
        return self.given

    def inner(self, state):
        return self.estimate

    def answer(self, state):
        return jnp.asarray(X), jnp.zeros(2)

    def step(self, problem, state, theta):
        raise NotImplementedError

    def refresh(self, problem, state, data):
        raise NotImplementedError

    on_host = True


X = np.array([0.9, 0.2, -0.1])


class Bar:
    """Remembers what it was shown."""

    def __init__(self):
        self.shown = []

    def show(self, *given):
        self.shown.append(given)


def a_run(options: Any = None, step=3, method: Any = CSOA, total=12, ready: Any = None, **changed) -> Any:
    """A run that stands somewhere, none of whose steps was taken."""
    ready = ready or prepared(steps=total, batch_size=2)
    ready = dataclasses.replace(ready, method=method)
    loop = object.__new__(_Run)
    loop.ready, loop.options, loop.checkpoint, loop.together, loop.leads = (
        ready,
        options or Options(),
        None,
        False,
        True,
    )
    state = At(jnp.array([0.3, 0.2, -0.1]), jnp.array([0.5, 0.25]))
    sums = steps.Totals(
        Mean(jnp.ones(3), jnp.zeros(3), jnp.ones(3)), Mean(np.arange(1.0, 7.0), np.zeros(6), np.ones(6))
    )
    loop.out = Outcome(Position(steps.Carry(state, sums), step), [], 1.5)
    loop.begun = loop.sound = loop.out.position
    loop.track_names, loop.records = [], [4, 8, total]
    loop.judge, loop.bound, loop.guess = (
        Judge(loop.options.tol, loop.options.until_solved),
        Bound(),
        Judge(loop.options.tol, False),
    )
    loop.looked_from, loop.pace = None, 64
    loop.driver = Driver(SimpleNamespace(refresh=lambda carry: carry), None, 2)
    for name, value in changed.items():
        setattr(loop, name, value)
    return loop


def test_the_pace_is_half_a_second_and_changes_by_eight_at_most():
    loop = a_run()
    assert [loop._next_pace(rate) for rate in (1, 15.9, 16, 17, 100, 1023, 1024, 10**6)] == [
        8,
        8,
        8,
        8,
        50,
        511,
        512,
        512,
    ]
    loop.pace = 5
    assert loop._next_pace(0.1) == 1
    assert a_run(pace=64)._next_stop(0) == 4
    stops = {}
    for chunk in (None, 3):
        for every in (None, 5):
            loop = a_run(Options(chunk=chunk), total=300, pace=64)
            loop.records = [100, 300]
            loop.checkpoint = SimpleNamespace(every_steps=every)
            stops[f"{chunk} {every}"] = [loop._next_stop(step) for step in (0, 4, 5, 35, 36, 99, 100, 260)]
    same("next stops", stops)
    assert _Run(OneRun(prepared(method=tr.CSOA(eta0=1.0))), Options(), None).pace == 64


def test_who_leads_and_what_is_the_default(monkeypatch):
    monkeypatch.setattr(run, "leads", lambda: False)
    ready = prepared(method=tr.CSOA(eta0=1.0))
    assert _Run(OneRun(ready), Options(), None).leads is True  # alone
    seen = []
    follows = a_run(Options(callback=seen.append), leads=False)
    assert (follows._call_back({}), seen) == (False, [])
    assert Options() == Options(60, False, None, None, None, None, False, None, False, False, None)
    assert Outcome(None, [], 0.0).lower == -math.inf
    asked = choose.Asked(BALL, True)
    assert asked[2:6] + asked[7:] == (0, 0, True, False, True, False)
    assert asked.lacks() == "curvature"
    assert Position(None, 3).record == {}
    assert steps.Variant() == (None, None)


def test_a_row_of_the_trace():
    loop, bar = a_run(Options(tol=0.5)), Bar()
    loop.judge.gap = 0.75
    assert loop._record(bar) is False
    row = loop.out.rows[0]
    assert row == {
        "step": 3, "samples": 6, "passes": pytest.approx(6 / 37), "seconds": 1.5, "gap": 0.75,
        "objective": pytest.approx(1.5),
        "h[0]": 2.0, "h[1]": 2.5, "dual h[0]": 3.0, "dual h[1]": 3.5, "weight": 2.0,
    }  # fmt: skip
    ((step, objective, h),) = bar.shown
    assert (step, float(objective), h.tolist()) == (3, 1.5, [2.0, 2.5])
    assert "gap" not in a_run()._row(None, np.zeros(2), np.zeros(2))
    assert "objective" not in a_run()._row(None, np.zeros(2), np.zeros(2))
    loop = a_run()
    loop.judge.gap = 0.5
    assert loop._row(1.0, np.zeros(2), np.zeros(2))["gap"] == 0.5
    loop._last_row(bar)
    loop._last_row(bar)
    assert len(loop.out.rows) == 1
    full = a_run(Options(trace_full=True))._on_all_rows()
    x = np.full(3, 2.0) / 2.0
    assert full["full objective"] == pytest.approx(((x - ROWS) ** 2).sum(1).mean() / 2)
    assert full["full h[0]"] == pytest.approx((ROWS @ x).mean() - 0.5)


def proof(**changed):
    return Proof(**({"upper": 5.0, "lower": 3.0, "rounding": 0.25, "scale": 40.0} | changed))


def proven(given, options=None, step=3, **changed):
    """How a proof ends a run, what it says, and the bound that it leaves."""
    method = Watched()
    object.__setattr__(method, "given", given)
    loop = a_run(options, step, method, **changed)
    ended = loop._proven(Bar())
    return [ended, loop.out.status.name, loop.out.message, loop.out.lower, [row.get("gap") for row in loop.out.rows]]


def test_what_a_proof_ends(monkeypatch):
    monkeypatch.setattr(run, "gradients_used", lambda *given: 74)
    monkeypatch.setattr(run, "judged_by_every_row", lambda *given: 3.0)
    free, tol = Options(until_solved=True), Options(tol=2.0)
    found = {
        "none": proven(None),
        "large": proven(proof()),
        "solved": proven(proof(upper=3.0, rounding=1e-4), free),
        "solved beyond doubt": proven(proof(upper=3.0, rounding=3e-6), free),
        "not by every row": proven(proof(upper=3.0, rounding=2e-3), free),
        "tolerance": proven(proof(upper=3.5), tol),
        "precision": proven(proof(upper=3.5, rounding=1.7), tol),
        "beyond": proven(proof(upper=4.5), tol),
        "conflict": proven(proof(conflict={1: 0.5})),
        "conflict of two": proven(proof(conflict={0: 0.25, 1: 0.5})),
        "unsettled": proven(proof(conflict={1: 0.5}, settled=False)),
        "unsettled at the end": proven(proof(conflict={1: 0.5}, settled=False), step=12),
        "infinite": proven(proof(upper=math.inf), free),
    }
    assert run.said_of_conflict({0: 1.0, 1: 2.0, 2: 3.0}, ["a", "b", "c"]) == (
        "Every point of the domain violates a by 1, b by 2 or c by 3 or more."
    )
    same("ends by proof", found)


def spent(gap=math.nan, scale=4.0, given=None, estimate=None, options=None):
    method = Watched()
    object.__setattr__(method, "given", given)
    object.__setattr__(method, "estimate", estimate)
    loop = a_run(options, 12, method)
    if not math.isnan(gap):
        loop.judge.look(gap, 0.0, scale)
    loop._spent()
    return [loop.out.status.name, loop.out.message]


def test_what_is_said_of_a_spent_budget():
    guessing = Options(estimates=True)
    touching = proof(interior=False)
    found = {
        "nothing": spent(),
        "small": spent(3e-3),
        "large": spent(0.5),
        "huge": spent(9.0),
        "infinite": spent(math.inf),
        "infinite without interior": spent(math.inf, given=touching),
        "large without interior": spent(0.5, given=touching),
        "estimate": spent(estimate=Inner(None, 0.5, 4.0), options=guessing),
        "small estimate": spent(estimate=Inner(None, 1e-3, 4.0), options=guessing),
        "no estimate": spent(options=guessing),
        "estimate not asked for": spent(estimate=Inner(None, 0.5, 4.0)),
    }
    same("spent budgets", found)


def test_half_of_a_budget():
    """Looks every 2 steps, 12 in all: the first look at half of them is before step 6; of 13, before step 8."""
    found, able = {}, {"replaceable": True}
    for total, step, asked, gap in (
        (12, 6, able, 0.5), (12, 6, able, 0.01), (12, 4, able, 0.5), (12, 8, able, 0.5), (12, 6, {}, 0.5),
        (13, 8, able, 0.5), (13, 6, able, 0.5), (12, 6, able | {"until_solved": True}, 0.5),
        (16, 8, able | {"tol": 0.1}, 0.5),
    ):  # fmt: skip
        options = Options(**asked)
        loop = a_run(options, step, total=total)
        loop.judge.look(gap, 0.0, 4.0)
        ended = loop._out_of_reach(loop.out.position, loop.out.position.carry, Bar())
        found[f"{total} {step} {asked} {gap}"] = [
            ended,
            loop.out.status.name,
            loop.out.message,
        ]
        assert (loop.looked_from is not None) is ended
        assert len(loop.out.rows) == ended
    same("half of a budget", found)


def test_what_a_look_ends(monkeypatch):
    asked = []

    class Looks(Watched):
        def snapshot(self, state):
            return "snapshot"

    inside = run.Inside(9.0, np.zeros(2))

    def looked(step, value, rounding=0.0, every=0.0, options=None):
        asked.clear()

        def gap_of(problem, snap, inside, data, best, every_row):
            asked.append((snap, every_row, best))
            return run.Gap(value + every * every_row, rounding, Bound(5.0, 0.125))

        monkeypatch.setattr(run, "gap_of", gap_of)
        loop = a_run(options or Options(tol=0.5, inside=inside), step, Looks())
        ended = loop._within_tolerance(loop.out.position, loop.out.position.carry, Bar())
        return [
            ended,
            loop.out.status.name,
            loop.out.message,
            loop.out.lower,
            loop.judge.scale,
            loop.bound,
            [a[1] for a in asked],
        ]

    monkeypatch.setattr(run, "gradients_used", lambda *given: 74)
    same("looks", {
        "small": looked(2, 0.25, 1e-3), "small beyond doubt": looked(2, 0.25, 1e-4),
        "small at the start": looked(0, 0.25, 1e-3), "large": looked(2, 0.75), "not due": looked(3, 0.25)[:4],
        "not by every row": looked(2, 0.25, 1e-3, every=1.0),
        "precision": looked(2, 0.75, 0.5), "not judged": looked(2, 0.25, options=Options(tol=0.5))[:4],
    })  # fmt: skip


def test_callbacks_and_stops():
    seen = []
    loop = a_run(Options(callback=seen.append))
    assert loop._call_back({"step": 3}) is False
    (snap,) = seen
    assert (snap.step, snap.average.tolist(), snap.row) == (3, [1.0, 1.0, 1.0], {"step": 3})
    np.testing.assert_array_equal(snap.last, [0.3, 0.2, -0.1])
    np.testing.assert_array_equal(snap.dual, [0.5, 0.25])
    for said, stopped in (
        (True, True),
        (np.True_, True),
        (jnp.asarray(True), True),
        (False, False),
        (1, False),
        ("yes", False),
    ):
        loop = a_run(Options(callback=lambda s: said))  # noqa: B023
        assert loop._call_back({}) is stopped
        assert loop.out.status is (Status.CALLBACK_STOPPED if stopped else Status.FINISHED)

    def raises(s):
        raise KeyError("oh")

    loop = a_run(Options(callback=raises))
    assert loop._call_back({}) is True
    assert (loop.out.status, loop.out.message) == (Status.CALLBACK_RAISED, "KeyError: 'oh'")
    assert isinstance(loop.out.error, KeyError)
    assert a_run()._call_back({}) is False
    loop = a_run()
    loop.unreadable(KeyError("oh"))
    assert (loop.out.status, loop.out.message) == (Status.STREAM_RAISED, "After 3 steps: KeyError: 'oh'")
    loop.driver = SimpleNamespace(take=lambda *given: Buffer(None, 0, 0))
    assert loop._take(3) is None
    assert (loop.out.status, loop.out.message) == (Status.STREAM_ENDED, "The stream gave samples for 3 steps.")


def test_what_was_not_finite():
    found = {}
    names = ["weight", "objective", "tracked", "h[0]", "h[1]", "lam", "lam"]
    for at, name in enumerate(names):
        loop = a_run(track_names=["t"])
        total = np.arange(1.0, 8.0)
        total[at] = np.nan
        carry = loop.out.position.carry
        sums = carry.totals._replace(scalars=Mean(total, np.zeros(7), np.zeros(7)))
        found[f"{name} {at}"] = loop._culprit(carry._replace(totals=sums)) if at else ""
    same("culprits", found)


def test_a_checkpoint_is_due_and_has_every_field(tmp_path, monkeypatch):
    path, clock = tmp_path / "a.ckpt", [100.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: clock[0])
    kept = checkpoint.Checkpoint(path, {"seed": "1"}, every_steps=5, every_seconds=30.0)
    assert [kept.due(step) for step in range(7)] == [True, False, False, False, False, True, False]
    clock[0] = 129.0
    assert not kept.due(3)
    clock[0] = 130.0
    assert kept.due(3)
    assert not checkpoint.Checkpoint(path, {}).due(4)
    assert checkpoint.Checkpoint(path, {}).every_seconds == 30.0
    assert not kept.exists()
    carry = {"a": np.arange(3.0), "b": [np.array(2, np.int32)]}
    kept.save(carry, step=7, seconds=2.5, rows=[{"step": 4.0}], bound=(1.0, 0.5), gaps=[3.0, 2.0])
    assert kept.exists()
    assert not kept.due(3)  # it counts from the last time
    found = kept.load(jax.tree.map(jnp.asarray, carry))
    assert found[1:] == (7, 2.5, [{"step": 4.0}], [1.0, 0.5], [3.0, 2.0])
    np.testing.assert_array_equal(found.carry["a"], carry["a"])
    assert found.carry["b"][0].dtype == np.int32
    kept.save(carry, step=7, seconds=2.5, rows=[], bound=(-np.inf, 0.0))
    assert kept.load(carry)[4:] == ([], [])
    assert "no folder" in refusal(checkpoint.Checkpoint, tmp_path / "none" / "a", {})
    other = checkpoint.Checkpoint(path, {"seed": "2"})
    said = {
        "another": refusal(other.load, carry),
        "shape": refusal(kept.load, {"a": np.zeros(2), "b": [np.array(2, np.int32)]}),
    }
    said["kind"] = refusal(kept.load, carry | {"b": [np.array(2.0)]})
    said["fewer"] = refusal(kept.load, {"a": carry["a"]})
    same("refused checkpoints", {name: s.replace(str(path), "FILE") for name, s in said.items()})


def test_what_a_run_saves_and_takes_up_again(tmp_path):
    loop = a_run()
    loop.checkpoint = checkpoint.Checkpoint(tmp_path / "a.ckpt", {})
    loop.out.rows, loop.bound, loop.judge.best = [{"step": 3.0}], Bound(2.0, 0.25), [5.0, 4.0]
    loop.save()
    again = a_run(step=0, ready=loop.ready)
    again.resume(loop.checkpoint)
    assert (again.out.position.step, again.out.seconds, again.out.rows) == (3, 1.5, [{"step": 3.0}])
    assert (again.bound, again.judge.best) == (Bound(2.0, 0.25), [5.0, 4.0])
    loop.looked_from = loop.out.position._replace(step=2)
    loop.save()
    again.resume(loop.checkpoint)
    assert again.out.position.step == 2
    loop.checkpoint.save = lambda *a, **o: (_ for _ in ()).throw(OSError("full"))
    with pytest.warns(UserWarning, match="could not be written") as warned:
        loop.save()
    assert warned[0].filename == __file__  # where it was asked for


def test_hashes_are_what_they_were():
    """Files of an earlier day are recognised by these."""

    class Thing:
        def __init__(self):
            self.a, self.b = 1, [np.arange(2.0), (3, "x")]

    def f(a, b=2, *, c=3):
        return a + b + c

    closed = (lambda k: lambda x: x + k)(5.0)
    digest = checkpoint.digest
    assert digest("ab") == digest("a", "b") != digest("b", "a")
    assert digest([np.zeros(2)]) != digest([np.zeros(2, np.float32)]) != digest([np.zeros((2, 1), np.float32)])
    assert digest({"a": np.zeros(1)}) != digest({"b": np.zeros(1)})
    assert checkpoint.digest_object(Thing()) == checkpoint.digest_object(Thing())
    assert checkpoint.digest_object({"a": 1}) != checkpoint.digest_object({"a": 2})
    assert checkpoint.digest_python(f) != checkpoint.digest_python(closed)
    again = (lambda k: lambda x: x + k)(6.0)
    assert checkpoint.digest_python(again) != checkpoint.digest_python(closed)
    assert checkpoint.digest_python(again) == checkpoint.digest_python((lambda k: lambda x: x + k)(6.0))
    assert checkpoint._without_address("<f at 0x7f1a> and <g at 0x00>") == "<f> and <g>"
    same("hashes", {
        "strings and arrays": digest("a", [np.arange(3.0), {"k": np.zeros((2, 0))}], "b"),
        "object": checkpoint.digest_object({"t": [1, "x", np.arange(2)], "u": None}),
        "set": checkpoint.digest_object(tr.L2Ball(0.5, shape=(2, 3))),
    })  # fmt: skip


# ---- progress --------------------------------------------------------------------------------------------------------


def test_a_bar_says_how_it_goes(monkeypatch):
    said, clock = [], [0.0]
    bar = progress.NotebookBar()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    monkeypatch.setattr(progress.NotebookBar, "_draw", lambda self, made: said.append(made))
    monkeypatch.setattr(progress, "progress", lambda *given: given)
    shown = progress.Progress(40, None, "things")
    assert isinstance(shown.bar, progress.NotebookBar)
    with shown:
        clock[0] = 0.49
        shown.show(1)
        clock[0] = 0.5
        shown.show(2)
        clock[0] = 0.59
        shown.show(3)
        clock[0] = 0.61
        shown.show(4, 1.25, np.array([0.5, -2.0]))
        clock[0] = 0.8
        shown.show(5, None, np.zeros(0))
        clock[0] = 1.0
        shown.bar.update(0, advance=3)
    assert said == [
        (2, 40, "things"), (4, 40, "steps  objective 1.25  worst constraint +0.5"), (5, 40, "steps"), (8, 40, "steps"),
    ]  # fmt: skip
    monkeypatch.setattr(progress, "_PAUSE", 0.125)  # which a clock can show exactly
    for clock[0] in (2.0, 2.125, 2.25 - 2**-20, 2.25):
        shown.bar.update(0, completed=clock[0])
    assert [given[0] for given in said[4:]] == [2.0, 2.125, 2.25]
    assert bar.add_task("a", 3) == 0
    monkeypatch.setattr(progress, "in_notebook", lambda: False)
    monkeypatch.setattr(progress.sys, "stderr", SimpleNamespace(isatty=lambda: False))
    assert progress.Progress(4, None).bar is None
    assert progress.Progress(4, False).bar is None


class Clockwork:
    """A driver whose chunks take a second each, and a look at all the data before every fourth step."""

    every = 4

    def __init__(self, clock, ends=10**9):
        self.clock, self.ends, self.log = clock, ends, []

    def refreshed(self, position):
        return position.carry

    def refresh_due(self, step):
        return step % 4 == 0

    def take(self, step, end):
        return Buffer(None, 0, max(0, min(end, self.ends) - step))

    def advance(self, position, carry, buffer):
        self.clock[0] += 1.0
        self.log.append((position.step, buffer.steps))
        return Position(carry, position.step + buffer.steps, {"extra": jnp.asarray(7.0)})


def gone(monkeypatch, options=None, saves=None, ends=10**9, records=(4, 8, 12)):
    clock = [100.0]
    monkeypatch.setattr(run.time, "perf_counter", lambda: clock[0])
    loop = a_run(options, step=0)
    loop.driver, loop.records, loop.pace = Clockwork(clock, ends), list(records), 5
    if saves is not None:
        loop.checkpoint = SimpleNamespace(
            every_steps=None, due=lambda step: step == 8, save=lambda carry, **o: saves.append(o)
        )
    loop.go(Bar())
    return loop


def test_chunks_are_taken_until_the_steps_or_the_time_are_over(monkeypatch):
    saves = []
    loop = gone(monkeypatch, saves=saves)
    assert loop.driver.log == [(0, 4), (4, 2), (6, 1), (7, 1), (8, 1), (9, 1), (10, 1), (11, 1)]  # two steps a second
    assert [row["step"] for row in loop.out.rows] == [4, 8, 12]
    assert [row["seconds"] for row in loop.out.rows] == [2.5, 5.5, 9.5]  # 1.5 had passed before
    assert [row["extra"] for row in loop.out.rows] == [7.0] * 3
    assert (loop.out.status, loop.out.position.step, loop.out.seconds) == (Status.FINISHED, 12, 9.5)
    assert [(o["step"], o["seconds"]) for o in saves] == [(8, 5.5)]
    assert loop.sound.step == 8
    late = gone(monkeypatch, Options(time_limit=2.0), records=(12,))
    assert (late.out.status, late.out.position.step) == (Status.TIME_LIMIT, 7)
    in_time = gone(monkeypatch, Options(time_limit=8.0))
    assert (in_time.out.status, in_time.out.position.step) == (Status.FINISHED, 12)
    ended = gone(monkeypatch, ends=6)
    assert (ended.out.status, ended.out.position.step) == (Status.STREAM_ENDED, 6)
    stopped = gone(monkeypatch, Options(callback=lambda snap: snap.step == 8))
    assert (stopped.out.status, stopped.out.position.step) == (Status.CALLBACK_STOPPED, 8)


def test_the_last_good_position_has_finite_values(monkeypatch):
    values = {3: (1.0, [0.0, 0.0]), 2: (np.nan, [0.0, 0.0]), 1: (1.0, [0.0, np.inf]), 0: (1.0, [0.0, 0.0])}
    loop = a_run()
    at = {step: loop.out.position._replace(step=step) for step in values}
    monkeypatch.setattr(run, "output", lambda method, carry: "x")
    asked = []
    monkeypatch.setattr(run, "full_values", lambda problem, x, rows: asked.pop(0))

    def back(good, now, sound, begun, *given):
        asked[:] = [values[k] for k in given]
        loop.out.position, loop.sound, loop.begun = at[now], at[sound], at[begun]
        loop.out.rows = [{"step": k} for k in range(4)]
        error: Any = SimpleNamespace(good=at[good], step=9, broken=loop.out.position.carry)
        loop.back_to_last_good(error)
        return loop.out.position.step, len(loop.out.rows), loop.out.message

    said = "The gradient, the point or a multiplier is not finite in step 9."
    assert back(3, 2, 1, 0, 3) == (3, 4, said)
    assert back(2, 1, 0, 0, 2, 1, 0, 0) == (0, 1, said)
    assert back(2, 1, 2, 1, 2, 1, 2, 1) == (1, 2, said + " Nor is it at the starting point: give an x0 where it is.")
    assert loop.out.status is Status.NOT_FINITE
    stream = a_run(ready=dataclasses.replace(prepared(), sampler=STREAM))
    assert stream._is_sound(at[2]) is True


def test_several_processes_share_a_checkpoint(tmp_path, monkeypatch):
    carry = {"a": np.arange(2.0)}
    alone = checkpoint.Checkpoint(tmp_path / "a", {"seed": "1"})
    alone.save(carry, step=7, seconds=2.5, rows=[], gaps=[1.0])
    monkeypatch.setattr(checkpoint, "said_by_first", lambda said: said)
    monkeypatch.setattr(checkpoint, "of_first", lambda carry: ("of the first", carry))
    monkeypatch.setattr(checkpoint, "leads", lambda: True)
    shared = checkpoint.Checkpoint(tmp_path / "a", {"seed": "1"}, together=True)
    assert shared.exists()
    found = shared.load(carry)
    assert (found.carry[0], found[1:]) == ("of the first", (7, 2.5, [], [], [1.0]))
    other = checkpoint.Checkpoint(tmp_path / "a", {"seed": "2"}, together=True)
    assert "seed" in refusal(other.load, carry)
    monkeypatch.setattr(checkpoint, "leads", lambda: False)
    follows = other.load(carry)
    assert (follows.carry[1], follows[1:]) == (carry, (0, 0.0, [], [], []))


def test_a_bar_is_on_standard_error_and_stays_in_files():
    bar = progress._bar()
    assert bar.console.stderr
    assert bar.live.transient is bar.console.is_terminal
    assert len(bar.columns) == 4
    drawn: list[Any] = []
    shown = progress.NotebookBar()
    shown.stop()
    ipython: Any = types.ModuleType("IPython.display")
    ipython.HTML, ipython.display = str, lambda *given, **options: drawn.append((*given, options))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
        patch.setitem(sys.modules, "IPython.display", ipython)
        shown._draw("bar")
    assert drawn.pop() == ("bar", {"display_id": True})
    shown.handle = SimpleNamespace(update=drawn.append)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(progress.NotebookBar, "_draw", lambda self, made: drawn.append(made))
        shown.stop()
    assert drawn == [""]


def test_whether_functions_are_finite_around_a_domain_is_asked_of_16_samples(monkeypatch):
    asked = []
    monkeypatch.setattr(prepare, "finite_around", lambda problem, x, some: (asked.append(some), False)[1])
    problem = tr.Problem(lambda x, theta: jnp.sum(x * theta[0]), None, BALLS)
    found = prepared(tr.Generator(draw), "auto", problem)
    assert (found.method.name, asked[0].shape) == ("fw-csoa", (16, 3))
    assert prepared(STREAM, "auto", problem).method.name == "split-csoa"
    assert prepared(STREAM, "auto", PROBLEM).method.name == "csoa"
    assert len(asked) == 1
    levels = prepared(levels=np.array([[0.1, 0.2], [0.3, 0.4]])).problem.levels
    np.testing.assert_array_equal(levels, [0.1, 0.2])


class Told:
    """A run in the place of the real one, which says what it was told to do."""

    def __init__(self, raises=None, step=3, together=False, leads=True):
        self.raises, self.together, self.leads, self.told = raises, together, leads, []
        self.ready, self.out = SimpleNamespace(steps=12), SimpleNamespace(position=SimpleNamespace(step=step))

    def go(self, bar):
        self.told.append("go")
        if self.raises is not None:
            raise self.raises

    def __getattr__(self, name):
        return lambda *given: self.told.append((name, *given))


def test_whatever_ends_a_run_it_is_saved_and_returned(monkeypatch):
    bars = []
    monkeypatch.setattr(run, "Progress", lambda *given: (bars.append(given), contextlib.nullcontext())[1])

    def told(loop, kept=None, options=None):
        monkeypatch.setattr(run, "_Run", lambda *given: loop)
        assert run.run(None, options or Options(), kept) is loop.out
        return loop.told

    there, not_there = (SimpleNamespace(exists=lambda answer=answer: answer) for answer in (True, False))
    assert told(Told(), there) == [("resume", there), "go", ("save",)]
    assert told(Told(), not_there) == told(Told()) == ["go", ("save",)]
    bad, unreadable = NotFiniteError(None, 3, None), UnreadableError("no")
    assert told(Told(bad)) == ["go", ("back_to_last_good", bad), ("save",)]
    assert told(Told(unreadable)) == ["go", ("unreadable", unreadable), ("save",)]
    assert told(Told(KeyboardInterrupt())) == ["go", ("stop", Status.INTERRUPTED), ("save",)]
    with pytest.raises(UnreadableError):
        told(Told(unreadable, step=0))
    with pytest.raises(KeyboardInterrupt):
        told(Told(KeyboardInterrupt(), together=True))
    told(Told(leads=False), options=Options(progress=True))
    told(Told(), options=Options(progress=True))
    assert bars[0] == (12, None)
    assert bars[-2:] == [(12, False), (12, True)]
    assert str(bad) == "a value is not finite in step 3"
