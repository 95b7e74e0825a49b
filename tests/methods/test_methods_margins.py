"""Zero violation, both sides: margin off, a constraint is violated in the mean over seeds; margin on, it is not."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slow import quick_first

import tightrope as tr
from tightrope.problems import PROBLEMS
from tightrope.tree import replace

# The problem, the margin that is enough, and the steps of a long run and of a short one. The theorems speak of the mean of
# H(x_t) along the run.
CASES = {
    "csoa": ("l1-lp", 2.0, 2_000, 200),
    "fw-csoa": ("l1-lp", 2.0, 2_000, 200),
    "split-csoa": ("simplex", 2.0, 2_000, 200),
    "g-oco": ("l1-lp", 2.0, 2_000, 200),
    "kim-lee": ("l1-lp", 2.0, 2_000, 200),
    "mjy": ("l1-lp", 1.0, 2_000, 200),
    "cscgd": ("ball", 0.5, 2_000, 200),
    "cfw-csoa": ("fair-logistic", 1.2, 40, 20),
    "pfs": ("ball", 0.25, 500, 200),
}
SEEDS = 40


def test_every_method_that_claims_zero_violation_has_a_case():
    without_a_claim = {"mfw-csoa", "svrg-csoa", "svrf-csoa"}  # they can be told to tighten, and promise nothing of it
    sampled = {name: kind for name, kind in tr.METHODS.items() if issubclass(kind, tr.Method)}
    assert set(CASES) | without_a_claim == {name for name, kind in sampled.items() if kind.facts.margin}


def significantly_positive(values):
    return values.mean() > 1.96 * values.std(ddof=1) / np.sqrt(len(values))


# ---- short runs: steps alone ----------------------------------------------------------------------------------------


@cache
def drawn(problem, draws, steps):
    """Samples for every seed, draw and step; of a table as many rows as it has, drawn with replacement."""
    solved = PROBLEMS[problem]()
    if solved.table is not None:
        n = len(jax.tree.leaves(solved.table)[0])
        rows = np.random.default_rng(0).integers(n, size=(draws, SEEDS, steps, n))
        return jax.tree.map(lambda a: jnp.asarray(a)[rows], solved.table)
    keys = jax.random.split(jax.random.key(0, impl="unsafe_rbg"), (draws, SEEDS, steps, 1))
    draw = solved.samples.fn
    for _ in range(4):
        draw = jax.vmap(draw)
    return jax.jit(draw)(keys)


def short_runs(name):
    """H_1 at every iterate, without the margin and with it: (2, seeds, steps)."""
    kind, (problem, margin, _, steps) = tr.METHODS[name], CASES[name]
    solved = PROBLEMS[problem]()
    known = replace(solved.problem, exact_constraints=solved.constraints) if name == "pfs" else solved.problem
    start = jnp.asarray(0.9999 * solved.x) if name == "pfs" else known.domain.start()  # all but on the border
    draws = tuple(
        jax.tree.map(lambda a, k=k: a[k], drawn(problem, kind.cost.samples, steps)) for k in range(kind.cost.samples)
    )

    # what is compiled runs for milliseconds: the compiler need not try hard
    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def constraint(samples, margins):
        def one(samples, value):
            method = replace(kind(**{str(kind.facts.margin): margin}), **{str(kind.facts.margin): value})

            def step(state, theta):
                state, info = method.step(known, state, theta if len(theta) > 1 else theta[0])
                return state, info.x

            first = method.init(known, start, jnp.zeros(len(solved.dual)), jnp.asarray(steps))
            points = jax.lax.scan(step, first, samples)[1]
            return jax.vmap(solved.constraints)(points)[:, 0]

        return jax.vmap(lambda value: jax.vmap(lambda each: one(each, value))(samples))(margins)

    return np.asarray(constraint(draws, jnp.array([0.0, margin])))


@pytest.mark.parametrize("name", quick_first(CASES, set(CASES) - {"cfw-csoa", "split-csoa"}))
def test_short_runs_violate_a_constraint_in_the_mean_without_the_margin_and_not_with_it(name):
    off, on = short_runs(name)
    assert significantly_positive(off.mean(axis=1))
    assert significantly_positive(-on.mean(axis=1))
    if name == "pfs":  # it claims more: no iterate at all
        assert np.mean(off > 0) > 0.2
        assert on.max() <= 0


# ---- long runs, by `sweep` ------------------------------------------------------------------------------------------


def measured(name, problem, data, track, column, **options):
    """The means over a run in every seed, without the margin and with it."""
    kind, (_, margin, steps, _) = tr.METHODS[name], CASES[name]
    method = kind(**{str(kind.facts.margin): margin})  # with a coefficient, so that none measures its own
    both = replace(method, **{str(method.facts.margin): np.array([0.0, margin])})
    table = tr.sweep(problem, data, both, steps=steps, seeds=range(SEEDS), track=track, **options)
    return [table[table[str(method.facts.margin)] == value][column] for value in (0.0, margin)]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(CASES) - {"cfw-csoa", "pfs"}))
def test_the_mean_violation_is_seen_without_the_margin_and_not_with_it(name):
    solved = PROBLEMS[CASES[name][0]]()
    off, on = measured(name, solved.problem, solved.samples, solved.track, "H0")
    assert significantly_positive(off)
    assert not significantly_positive(on)


@pytest.mark.slow
def test_on_all_the_data_at_once():
    """CFW-CSOA takes all rows at every step; here as many rows, drawn with replacement, so that seeds differ."""
    solved = PROBLEMS[CASES["cfw-csoa"][0]]()
    rows = tr.Rows(solved.table, replace=True)
    off, on = measured("cfw-csoa", solved.problem, rows, solved.track, "H0", batch_size=rows.n)
    assert significantly_positive(off)
    assert not significantly_positive(on)


@pytest.mark.slow
def test_every_iterate_of_pfs():
    """It claims more: no iterate at all violates the constraint. The start is all but on the border."""
    solved = PROBLEMS[CASES["pfs"][0]]()
    known = replace(solved.problem, exact_constraints=solved.constraints)
    off, on = measured(
        "pfs",
        known,
        solved.samples,
        lambda x: {"violated": jnp.where(solved.constraints(x)[0] > 0, 1.0, 0.0)},
        "violated",
        x0=0.9999 * solved.x,
    )
    assert off.mean() > 0.2
    assert on.max() == 0
