"""Random problems: the same for the same seed, varied, solved with a proof, and judged without units."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from studies.strangers import __main__ as command
from studies.strangers import generate, measure, reference, report
from studies.strangers.cache import Cache, seeds_of
from studies.strangers.generate import stranger
from studies.strangers.judge import judge, recognisable
from studies.strangers.model import Model
from studies.strangers.reference import NotSolved, solve
from studies.strangers.tuned import _gaps
from tightrope.problem.full_data import full_jacobian
from tightrope.slsqp import slsqp

SMOOTH, KINKED, SLACK, INFEASIBLE = 12, 38, 56, 24  # small ones


def between(one, seed=0):
    """A point inside the domain, in natural units: vertices and the middle, mixed."""
    rng = np.random.default_rng(seed)
    vertices = [one.model.domain.lmo(rng.normal(size=one.d)) for _ in range(3)]
    return rng.dirichlet(np.ones(4)) @ np.stack([*vertices, one.model.domain.start()])


def test_a_seed_is_a_problem():
    one, same, other = stranger(38), stranger(38), stranger(12)
    assert one.description == same.description != other.description
    jax.tree.map(np.testing.assert_array_equal, (one.table, one.problem.params), (same.table, same.problem.params))


@pytest.mark.parametrize("seed", [118, 184])  # a CVaR objective and CVaR constraints, whose quantiles are at kinks
def test_rounding_does_not_decide_what_is_drawn(seed, monkeypatch):
    one, rng, means, gradients = stranger(seed), np.random.default_rng(0), Model.means, Model.gradients

    def rough(values):
        return values + 1e-14 * np.abs(values).max() * rng.normal(size=values.shape)

    monkeypatch.setattr(Model, "means", lambda self, x: rough(means(self, x)))
    monkeypatch.setattr(Model, "gradients", lambda self, x: rough(gradients(self, x)))
    other = stranger(seed)
    assert other.description == one.description
    np.testing.assert_allclose(other.model.levels, one.model.levels, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", [4, 32, 36, 48])  # every link, matrices, products, quantiles
def test_what_the_user_sees_is_what_the_reference_sees(seed):
    one = stranger(seed)
    v = between(one)
    x = one.in_units(v)
    assert one.problem.domain.contains(jax.tree.map(jnp.asarray, x))
    np.testing.assert_allclose(one.natural(x), v, rtol=1e-12)
    f, h, grad_f, grad_h = jax.jit(full_jacobian)(one.problem, jax.tree.map(jnp.asarray, x), one.table)
    units = np.append(one.f_unit, one.h_units)
    rows = np.abs(one.model.rows(v)).mean(axis=0) + np.append(0.0, np.abs(one.model.levels))
    np.testing.assert_allclose(np.append(f, h) / units / rows, one.model.means(v) / rows, atol=1e-12)
    leaves = [np.reshape(g, (one.N, -1)) for g in _leaves(one, grad_h)]
    found = np.concatenate(
        [np.concatenate([np.ravel(g) for g in _leaves(one, grad_f)])[None], np.concatenate(leaves, 1)]
    )
    np.testing.assert_allclose(found * one.x_units / units[:, None], one.model.gradients(v), rtol=1e-9, atol=1e-9)


def _leaves(one, tree):
    return [tree[name] for name in one.model.domain.names] if isinstance(tree, dict) else [tree]


def test_samples_of_a_stream_are_rows_of_the_table():
    one = stranger(SMOOTH)
    theta = jax.vmap(one.samples.fn)(jax.random.split(jax.random.key(0), 50))
    drawn = {tuple(row) for row in np.concatenate([theta["xi"], theta["b"]], axis=1)}
    assert drawn <= {tuple(row) for row in np.concatenate([one.table["xi"], one.table["b"]], axis=1)}
    assert len(drawn) > 40


def test_seeds_are_varied():
    makers = [generate._Maker(np.random.Generator(np.random.Philox(key=seed)), seed) for seed in range(0, 1000, 2)]
    assert {m.objective for m in makers} == set(generate.OBJECTIVES)
    assert {m.constraint for m in makers} == set(generate.CONSTRAINTS)
    assert {m.domain_kind for m in makers} == set(generate.DOMAINS)
    assert min(len(m.kinds) for m in makers) == 1
    assert max(len(m.kinds) for m in makers) > 40
    assert np.mean([m.infeasible for m in makers]) == pytest.approx(1 / 8, abs=0.04)
    assert np.mean([m.has_units for m in makers]) == pytest.approx(1 / 2, abs=0.07)


@pytest.mark.parametrize("seed", [SMOOTH, KINKED, SLACK])
def test_the_anchor_is_strictly_feasible(seed):
    one = stranger(seed)
    assert one.feasible
    assert np.max(one.model.means(one.anchor)[1:] / one.h_scales) <= -0.9 * generate.MARGIN


def test_the_gradient_is_that_of_the_values():
    one = stranger(32)
    v, step = between(one), 1e-6
    for j in range(one.d):
        e = np.eye(one.d)[j] * step
        found = (one.model.means(v + e) - one.model.means(v - e)) / (2 * step)
        np.testing.assert_allclose(found, one.model.gradients(v)[:, j], rtol=1e-6, atol=1e-8)


def test_the_curvature_is_that_of_the_gradients():
    one = stranger(32)  # log-sum-exp and squares
    v, step, lam = between(one), 1e-6, np.array([1.0, 0.5])
    e = np.eye(one.d) * step
    found = [lam @ (one.model.gradients(v + s) - one.model.gradients(v - s)) / (2 * step) for s in e]
    np.testing.assert_allclose(found, one.model.curvature(v, lam), rtol=1e-5, atol=1e-7)


# ---- references ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [SMOOTH, KINKED, SLACK])
def test_a_reference_is_feasible_and_no_feasible_point_is_better(seed):
    one = stranger(seed)
    found = one.reference
    assert found.gap <= reference.TOLERANCE
    assert np.max(one.model.means(found.x)[1:]) <= 0
    assert np.max(one.model.means(found.inner)[1:] / one.h_scales) == pytest.approx(-found.margin)
    for k in range(20):
        there = one.model.pulled(between(one, k), found.inner)
        assert one.model.means(there)[0] >= found.optimum - 2e-7 * found.f_scale


def test_a_reference_agrees_with_slsqp():
    one = stranger(SMOOTH)
    problem, table = one.model.in_units(np.ones(one.d), 1.0, np.ones(one.N))
    answer = slsqp(problem, table, tol=1e-12)
    found = one.reference
    assert float(answer.objective) == pytest.approx(found.optimum, abs=1e-6 * found.f_scale)


def test_multipliers_are_slopes_of_the_optimum():
    one = stranger(SMOOTH)
    i = int(np.argmax(one.reference.dual))
    by = 1e-4 * one.h_scales[i]
    looser = dataclasses.replace(
        one, model=dataclasses.replace(one.model, levels=one.model.levels + by * np.eye(one.N)[i])
    )
    slope = (one.reference.optimum - solve(looser).optimum) / by
    assert slope == pytest.approx(one.reference.dual[i], rel=0.02)


def test_wrong_multipliers_are_found_out():
    one = stranger(SMOOTH)
    found = one.reference
    near = reference._Point(found.x, found.dual * one.h_scales, {})
    right = reference._lower_bound(one.model, near, np.append(1.0, found.dual))
    wrong = reference._lower_bound(one.model, near, np.append(1.0, 1.1 * found.dual))
    assert right == pytest.approx(found.optimum, abs=1e-6 * found.f_scale)
    assert wrong < found.optimum - 1e-4 * found.f_scale


@pytest.mark.parametrize("seed", [INFEASIBLE, 60])
def test_no_feasible_point_by_the_amount_that_was_built_in(seed):
    one = stranger(seed)
    assert not one.feasible
    assert 0.01 <= one.least_violation <= 0.3
    # which the solver found without knowing it
    assert -one.reference.margin == pytest.approx(one.least_violation, abs=1e-6)
    assert one.reference.dual.sum() == pytest.approx(1.0)
    assert recognisable(one, one.reference, 10_000)
    assert not recognisable(one, one.reference, 1)


def test_the_cache_gives_back_what_was_solved_and_nothing_else(tmp_path, capsys):
    Cache(tmp_path, "develop").fill([SMOOTH])
    cache, one = Cache(tmp_path, "develop"), stranger(SMOOTH)
    jax.tree.map(np.testing.assert_array_equal, vars(cache.get(one)), vars(one.reference))
    capsys.readouterr()
    cache.fill([SMOOTH])
    assert capsys.readouterr().out == ""  # not solved again
    with pytest.raises(KeyError, match="no reference for seed 38"):
        cache.get(stranger(38))
    other = dataclasses.replace(one, model=dataclasses.replace(one.model, levels=one.model.levels + 1))
    with pytest.raises(ValueError, match="another problem under seed 12"):
        cache.get(other)


def test_what_cannot_be_solved_is_refused_once(tmp_path, monkeypatch):
    monkeypatch.setattr("studies.strangers.cache.solve", lambda one: solve(one, tolerance=-1.0))
    cache = Cache(tmp_path, "develop")
    cache.fill([SMOOTH])
    assert "is known to" in Cache(tmp_path, "develop").refusal(SMOOTH)
    with pytest.raises(NotSolved):
        cache.get(stranger(SMOOTH))


def test_halves_have_nothing_in_common():
    assert seeds_of("develop", 0, 6) == [0, 2, 4]
    assert seeds_of("held-out", 0, 6) == [1, 3, 5]


# ---- the judge -------------------------------------------------------------------------------------------------------


def in_other_units(one):
    x_units, f_unit, h_units = np.full(one.d, 1e4), 1e-5, 10.0 ** np.arange(one.N)
    problem, table = one.model.in_units(x_units, f_unit, h_units)
    return dataclasses.replace(one, problem=problem, table=table, x_units=x_units, f_unit=f_unit, h_units=h_units)


@pytest.mark.parametrize("seed", [SMOOTH, KINKED])
def test_verdicts(seed):
    one = stranger(seed)
    best = judge(one, one.reference, one.in_units(one.reference.x))
    assert best.gap == pytest.approx(0, abs=1e-12)
    assert not best.violated
    assert best.inside
    bold = one.reference.x + 0.1 * (one.reference.x - one.reference.inner)
    verdict = judge(one, one.reference, one.in_units(bold))
    assert verdict.violated
    assert verdict.violation > 0
    assert verdict.pulled_gap > -1e-6
    other = in_other_units(one)
    np.testing.assert_allclose(judge(other, one.reference, other.in_units(bold)), verdict, rtol=1e-6, atol=1e-12)
    assert judge(one, one.reference, one.in_units(np.full(one.d, np.nan))).violated
    assert not judge(one, one.reference, one.in_units(one.reference.x + 5)).inside


def test_tuned_runs_have_gaps_that_fall_with_their_length():
    one = stranger(SMOOTH)
    coefficients = {"eta0": np.ones(1), "upsilon0": np.ones(1), "dual_scale": np.ones(1)}
    short, long = (_gaps(one, one.reference, steps, coefficients, range(4)) for steps in (50, 5_000))
    assert short.shape == (1, 4)
    assert 0 <= long.mean() < short.mean() / 2


# ---- the study -------------------------------------------------------------------------------------------------------


def test_a_study_goes_on_where_it_was_and_is_split_into_parts(tmp_path, monkeypatch):
    looked_at = []
    monkeypatch.setitem(command.STUDIES, "rows", lambda one, known: looked_at.append(one.seed) or {"gap": 0.5})
    cache = Cache(tmp_path, "develop")
    cache.fill([12, 16, 30])

    def run(part):
        command.study("rows", "develop", [12, 16, 30], cache, tmp_path, part, largest=1000)

    run("2/3")
    assert looked_at == [16]
    run("1/1")
    assert looked_at == [16, 12, 30]
    run("1/1")
    assert looked_at == [16, 12, 30]
    assert command.measured(tmp_path, "rows", "develop").seed.tolist() == [12, 16, 30]
    assert not command.wanted(stranger(12), "infeasible", 1000)
    assert not command.wanted(stranger(16), "rows", 36)  # it has 37 coordinates


@pytest.mark.slow  # compiles four methods
def test_what_is_measured_fits_the_columns(monkeypatch):
    monkeypatch.setattr(measure, "PASSES", 5)
    monkeypatch.setattr(measure, "STEPS", 100)
    for what, seed in (("rows", SMOOTH), ("calls", SMOOTH), ("streams", SMOOTH), ("infeasible", INFEASIBLE)):
        one = stranger(seed)
        row = measure.about(one, one.reference) | measure.STUDIES[what](one, one.reference)
        assert list(row) == command.columns_of(what)


def test_an_error_is_a_status(monkeypatch):
    def broken(*given, **options):
        raise ValueError("no")

    monkeypatch.setattr(measure.tr, "minimize", broken)
    row = measure.rows(stranger(SMOOTH), stranger(SMOOTH).reference)
    assert row["status"] == "raised ValueError: no"
    assert row["violated"]


def tables(gap, violated, significant, tuned):
    rows = {
        "seed": [0, 2], "family": ["linear / linear / box", "hinge / cvar / box x simplex"], "d": [5, 80],
        "smooth": [True, False], "gap": [gap, gap], "violated": violated, "inside": True, "status": "FINISHED",
        "infeasible": False, "not converged": False, "method": "svrg-csoa", "passes": 100.0, "seconds": 1.0,
    }  # fmt: skip
    streams = {k: rows[k] for k in ("seed", "family", "d", "smooth")} | {
        "significant": significant, "pulled_gap": 0.1, "tuned": tuned
    }  # fmt: skip
    infeasible = {"status": ["INFEASIBLE"], "infeasible": [True], "stream status": "FINISHED", "stream infeasible": False,
                  "recognisable": True}  # fmt: skip
    return {"rows": pd.DataFrame(rows), "streams": pd.DataFrame(streams), "infeasible": pd.DataFrame(infeasible)}


def test_claims_hold_and_fail():
    good = report.claims(tables(1e-6, violated=False, significant=False, tuned=0.06))
    assert [holds for text, _, holds in good] == [True] * (len(good) - 1) + [False]  # the stream did not see it
    bad = report.claims(tables(1e-6, violated=True, significant=True, tuned=0.04))
    assert [text for text, _, holds in bad if holds] == [
        "false alarms: 1 % at most",
        "infeasible recognised in 95 %, data at hand",
    ]


def calls(gap, said, status="SOLVED"):
    """Two whole calls that end with a gap and say another."""
    made = tables(gap, violated=False, significant=False, tuned=1)["rows"][["seed", "family", "d", "smooth"]]
    for name in ("", "float32 "):
        found = {
            "status": status,
            "gap": gap,
            "violation": 0.0,
            "violated": False,
            "false gap": said < gap,
            "seconds": 1.0,
        }
        made = made.assign(**{f"{name}{key}": value for key, value in found.items()})
    return {"calls": made}


def test_a_call_is_right_by_what_it_says():
    assert all(holds for *_, holds in report.claims(calls(1e-6, said=1e-5)))
    wrong = [text for text, _, holds in report.claims(calls(1e-3, said=1e-5)) if not holds]
    assert len(wrong) == 8, "neither solved, nor right, nor above the true gap; in both precisions"
    modest = report.claims(calls(1e-3, said=1e-2, status="STALLED"))
    assert all(holds for text, _, holds in modest if "below" in text)
    assert "| STALLED | STALLED | 0 | linear / linear / box | 0.001 |" in report.report(
        "develop", calls(1e-3, said=1e-2, status="STALLED")
    )


def test_the_page_has_every_study_that_was_run():
    made = tables(1e-6, violated=False, significant=False, tuned=0.06)
    page = report.report("develop", made)
    assert all(f"\n## {head}" in page for head in ("Data at hand", "Streams", "No feasible point"))
    assert "| d <= 50, smooth | 1 | 100% | 100% | 100% | 0 | 100 |" in page
    assert "| FINISHED | svrg-csoa |" not in page  # nothing was missed
    assert "## Streams" not in report.report("develop", made | {"streams": pd.DataFrame({"seed": []})})
