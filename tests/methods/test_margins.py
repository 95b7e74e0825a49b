"""Zero violation, both sides: margin off, a constraint is violated in the mean over seeds; margin on, it is not."""

import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.problems import PROBLEMS
from tightrope.tree import replace

pytestmark = pytest.mark.slow  # forty seeds each

# The problem, the margin that is enough, and the steps. The theorems speak of the mean of H(x_t) along the run.
CASES = {
    "csoa": ("l1-lp", 2.0, 2_000),
    "fw-csoa": ("l1-lp", 2.0, 2_000),
    "split-csoa": ("simplex", 2.0, 2_000),
    "g-oco": ("l1-lp", 2.0, 2_000),
    "kim-lee": ("l1-lp", 2.0, 2_000),
    "mjy": ("l1-lp", 0.3, 2_000),
    "cscgd": ("ball", 0.25, 2_000),
    "cfw-csoa": ("fair-logistic", 1.2, 40),
    "pfs": ("ball", 0.25, 500),
}


def measured(name, problem, data, track, column, **options):
    """The means over a run in 40 seeds, without the margin and with it."""
    kind, (_, margin, steps) = tr.METHODS[name], CASES[name]
    method = kind(**{str(kind.margin): margin})  # with a coefficient, so that none measures its own
    both = replace(method, **{str(method.margin): np.array([0.0, margin])})
    table = tr.sweep(problem, data, both, steps=steps, seeds=range(40), track=track, **options)
    return [table[table[str(method.margin)] == value][column] for value in (0.0, margin)]


def significantly_positive(values):
    return values.mean() > 1.96 * values.sem()


def test_every_method_that_claims_zero_violation_has_a_case():
    without_a_claim = {"mfw-csoa", "svrg-csoa", "svrf-csoa"}  # they can be told to tighten, and promise nothing of it
    assert set(CASES) | without_a_claim == {name for name, kind in tr.METHODS.items() if kind.margin}


@pytest.mark.parametrize("name", sorted(set(CASES) - {"cfw-csoa", "pfs"}))
def test_the_mean_violation_is_seen_without_the_margin_and_not_with_it(name):
    solved = PROBLEMS[CASES[name][0]]()
    off, on = measured(name, solved.problem, solved.samples, solved.track, "H0")
    assert significantly_positive(off)
    assert not significantly_positive(on)


def test_on_all_the_data_at_once():
    """CFW-CSOA takes all rows at every step; here as many rows, drawn with replacement, so that seeds differ."""
    solved = PROBLEMS[CASES["cfw-csoa"][0]]()
    rows = tr.Rows(solved.table, replace=True)
    off, on = measured("cfw-csoa", solved.problem, rows, solved.track, "H0", batch_size=rows.n)
    assert significantly_positive(off)
    assert not significantly_positive(on)


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
