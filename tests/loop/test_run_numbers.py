"""Numbers and sentences around a run: what is prepared, which method is chosen, sums over steps, records, pace, checkpoints.
By hand where a formula is short; the rest as kept in tests/golden (see there)."""

# What stands in the place of a problem, a run or a set has only what is asked of it:
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

import dataclasses
import itertools
import sys
import time
import types
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import BALL, CSOA, PROBLEM, ROWS

import tightrope as tr
from tightrope.loop import checkpoint, prepare, progress, steps
from tightrope.methods import Cost, Info, Method
from tightrope.problem.problem import Split
from tightrope.sampling import Plan
from tightrope.sets.base import checked_point
from tightrope.tree import Mean


def refusal(call, *args, **options) -> str:
    with pytest.raises((ValueError, TypeError)) as caught:
        call(*args, **options)
    return f"{type(caught.value).__name__}: {caught.value}"


def prepared(data: Any = ROWS, method: Any = CSOA, problem=PROBLEM, **options):
    settings = {"steps": 5, "passes": None, "batch_size": None, "seeds": (0,), "x0": None} | options
    return prepare.prepare(problem, data, method, **settings)


# ---- which method ----------------------------------------------------------------------------------------------------


# ---- what is prepared ------------------------------------------------------------------------------------------------


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
    float32 = checked_point("x", [1, 2], None, jnp.float32)
    assert float32[0].dtype == jnp.float32
    assert checked_point("x", True, None).dtype == float


def test_a_given_margin_is_checked_where_a_run_is_prepared():
    two_sided = tr.Problem(lambda x, theta: jnp.sum(x), tr.two_sided(lambda x, theta: x[:1]), BALL, levels=0.5)
    with pytest.raises(ValueError, match=r"has room for 0\.5"):
        prepared(problem=two_sided, method=tr.CSOA(eta0=1.0, upsilon0=9.0))
    with pytest.warns(UserWarning, match="at most half of that") as warned:
        prepared(problem=two_sided, method=tr.CSOA(eta0=1.0, upsilon0=0.9))
    assert warned[0].filename == __file__


# ---- sums over steps -------------------------------------------------------------------------------------------------


class At(NamedTuple):
    x: Any
    lam: Any


@tr.pytree
class Adds(Method):
    """A method whose point is a sum of all samples so far."""

    cost = Cost(samples=1)

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
    assert "keeps no mean" in refusal(prepare.refuse_mean, tr.METHODS["cfw-csoa"]())
    prepare.refuse_mean(tr.CSOA())
    for wrong in (lambda x: [x[0]], lambda x: {"a": x}):
        assert "expected a dict of scalars" in refusal(steps.track_names, steps.Variant(None, wrong), jnp.ones(1))


# ---- the driver and the run around it --------------------------------------------------------------------------------


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
    np.testing.assert_array_equal(found.state["a"], carry["a"])
    assert found.state["b"][0].dtype == np.int32
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
    for name, words in {"another": "seed", "shape": "other arrays", "kind": "other arrays", "fewer": ""}.items():
        assert words in said[name]


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
    assert (found.state[0], found[1:]) == ("of the first", (7, 2.5, [], [], [1.0]))
    other = checkpoint.Checkpoint(tmp_path / "a", {"seed": "2"}, together=True)
    assert "seed" in refusal(other.load, carry)
    monkeypatch.setattr(checkpoint, "leads", lambda: False)
    follows = other.load(carry)
    assert (follows.state[1], follows[1:]) == (carry, (0, 0.0, [], [], []))


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
