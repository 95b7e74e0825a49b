"""The leaderboard: who fits, what it costs, who wins; a tiny one from end to end, with a method that it has never seen."""

import dataclasses
import pickle
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import tightrope as tr
from tightrope.lab import leaderboard as contest
from tightrope.lab.leaderboard import Size, drawing, entrants, leaderboard, report, runs
from tightrope.lab.leaderboard.divisions import DIVISIONS, SOURCES, counts
from tightrope.lab.leaderboard.hidden import SEED, gap, hidden, is_hidden, name_of
from tightrope.loop import choose
from tightrope.loop.prepare import prepare
from tightrope.methods.snapshot import probe_size
from tightrope.plotting import new_figure
from tightrope.problem.problem import n_constraints
from tightrope.problems import PROBLEMS
from tightrope.tree import replace

TINY = Size(
    budgets=(40, 80),
    finite=(60, 120),
    seeds=3,
    tuning_seeds=2,
    rows=20,
    streams=("scalar",),
    tables=("scalar",),
    hidden=0,
)


class ToyState(NamedTuple):
    x: Any
    lam: Any


@tr.pytree
class Toy(tr.Method):
    """Stays where it is."""

    size: Any = 1.0

    name = "toy"
    tuned = ("size",)

    def init(self, problem, x, lam, horizon):
        return ToyState(x, lam)

    def step(self, problem, state, theta):
        f, h = problem.values(state.x, theta)
        return state, tr.Info(state.x, state.lam, f, h)


# ---- who fits, and at what cost --------------------------------------------------------------------------------------


def test_every_method_is_on_some_problem_and_misfits_have_a_reason():
    for kind in tr.METHODS.values():
        reasons = [entrants.misfit(kind, PROBLEMS[name](), d) for name in ("ball", "infeasible") for d in SOURCES]
        assert None in reasons, kind
    assert "a stream does not keep" in str(entrants.misfit(tr.SVRGCSOA, PROBLEMS["ball"](), "streams"))
    assert "no multipliers" in str(entrants.misfit(tr.METHODS["1-sfw"], PROBLEMS["infeasible"](), "streams"))


def test_budgets_that_come_to_the_same_number_of_steps_are_told_apart():
    size = dataclasses.replace(TINY, budgets=(2, 3, 40))  # ConEx takes two samples a step
    table = runs.compete("scalar", "conex", "streams", size)
    assert not table.duplicated(["budget", "seed", "setting"]).any()
    assert table.groupby("budget").steps.first().to_dict() == {2: 1, 3: 1, 40: 20}


def test_a_method_with_two_samples_a_step_takes_half_the_steps():
    ball = PROBLEMS["ball"]()
    one, two = (entrants.enter(tr.METHODS[name], ball, "streams", 1_000) for name in ("csoa", "conex"))
    assert (one.steps(1_000), two.steps(1_000)) == (1_000, 500)


@pytest.mark.parametrize(("name", "calls"), [("csoa", 90), ("conex", 180), ("fw-csoa", 180), ("svrg-csoa", None)])
def test_rows_that_are_looked_at_are_counted_whatever_for(name, calls):
    """Gradients, samples that only constraints see, and refreshes with their probe."""
    entry = entrants.enter(tr.METHODS[name], PROBLEMS["fair-logistic"](), "finite", 100_000)
    if calls is None:
        epochs = -(-90 // getattr(entry.method, "refresh_every"))  # noqa: B009
        calls = 2 * 90 * entry.batch_size + epochs * (entry.n + 19 * probe_size(entry.n))
    assert entry.calls(90) == calls


@pytest.mark.parametrize("name", tr.METHODS)
def test_steps_on_rows_are_as_many_as_the_budget_allows(name):
    solved = PROBLEMS["fair-logistic"]()
    entry = entrants.enter(tr.METHODS[name], solved, "finite", 100_000)
    steps = entry.steps(100_000)
    assert entry.calls(steps) <= 100_000 < entry.calls(steps + 1)


def test_projection_free_methods_are_measured_by_linear_minimisations():
    simplex = PROBLEMS["simplex"]()
    by_lmos = {name for name, kind in tr.METHODS.items() if "lmos" in counts(kind)}
    assert {"fw-csoa", "mfw-csoa", "cfw-csoa", "svrf-csoa", "coexcg"} <= by_lmos
    assert not by_lmos & {"csoa", "bundle", "sqp", "sfw", "affine-fw"}  # nothing to count, or given what others are not
    for name in by_lmos:
        kind = tr.METHODS[name]
        source = "finite" if "rows" in kind.needs else "streams"
        solved = simplex if source == "streams" else PROBLEMS["fair-logistic"]()
        entry = entrants.enter(kind, solved, source, 1_000)
        steps = entry.steps(30, "lmos")
        assert entry.cost(steps).lmos <= 30 < entry.cost(steps + 1).lmos, name


def test_without_coefficients_a_method_is_what_its_name_alone_gives():
    solved = PROBLEMS["fair-logistic"]()
    for name in ("csoa", "cscgd", "mjy"):
        entry = entrants.enter(tr.METHODS[name], solved, "streams", 400)
        for steps in (400, 6_400):
            by_name = prepare(
                solved.problem, solved.samples, name, steps=steps, passes=None, batch_size=None, seeds=(0,), x0=None
            ).method
            plain = entrants.untouched(entry, steps)
            assert jax.tree.structure(plain) == jax.tree.structure(by_name)
            np.testing.assert_allclose(jax.tree.leaves(plain), jax.tree.leaves(by_name), rtol=1e-6)


def test_auto_is_what_minimize_takes():
    assert entrants.automatic(PROBLEMS["ball"](), "streams") == "csoa"
    assert (
        entrants.automatic(PROBLEMS["completion"](), "streams")
        == choose.automatic(choose.Setting(PROBLEMS["completion"]().problem.domain, rows=False))[0].name
    )
    assert entrants.automatic(PROBLEMS["fair-logistic"](), "finite") == "sqp"


@pytest.mark.parametrize("name", tr.METHODS)
def test_grids_are_of_equal_size_and_leave_room(name):
    solved = PROBLEMS["fair-logistic"]()  # its two sides leave room for a tightening below 0.1
    entry = entrants.enter(tr.METHODS[name], solved, "finite" if "rows" in tr.METHODS[name].needs else "streams", 4_000)
    grid = entrants.grid(entry, 4_000)
    sizes = np.prod([len(values) for values in grid.values()]) if grid else 0
    assert sizes == (9 if tr.METHODS[name].tuned else 0)
    largest = replace(entry.method, **{key: values.max() for key, values in grid.items()})
    if isinstance(largest, tr.Method):
        assert largest.steps.tightening(entry.steps(4_000)) <= 0.05 * (1 + 1e-9)


def test_what_methods_are_given():
    simplex = PROBLEMS["simplex"]()
    pfs, sfw = (entrants.enter(tr.METHODS[name], simplex, "streams", 100) for name in ("pfs", "sfw"))
    assert pfs.given == (entrants.EXACT, entrants.INSIDE)
    assert float(jnp.max(simplex.constraints(jnp.asarray(pfs.x0)))) <= -simplex.slater / 4
    assert sfw.given == (entrants.PENALTY,)
    assert n_constraints(sfw.problem, simplex.x, simplex.samples.example()) == 0


def test_exact_constraints_are_measured_from_the_levels():
    solved = PROBLEMS["fair-logistic"]()  # which has levels of its own
    entry = entrants.enter(tr.METHODS["pfs"], solved, "streams", 100)
    x = jnp.asarray(solved.x)
    np.testing.assert_allclose(entry.problem._constraints(x, None), solved.constraints(x), atol=1e-12)


def test_scores_are_never_negative_and_zero_at_the_solution():
    solved = PROBLEMS["ball"]()
    rng = np.random.default_rng(0)
    points = [jnp.asarray(solved.x), *jnp.asarray(rng.uniform(-0.9, 0.9, size=(200, 5)))]
    values = runs.worth_of(solved, points)
    assert values["score"][0] == pytest.approx(0, abs=1e-12)
    assert np.all(values["score"] >= np.maximum(values["violation"], 0) - 1e-12)
    assert np.all(values["lagrangian"] >= -1e-12)
    assert values["gap"].min() < 0 < values["violation"].max()  # a gap alone would reward violation


# ---- the report, on runs that were made up ---------------------------------------------------------------------------


def made_up(
    method, scores, given="", problem="ball", violation=0.0, counted="calls", tuned=True, default=False, auto=False
):
    """Runs at budgets of 100 and 10,000 whose score and gap are the same."""
    table = [
        {"source": "streams", "counted": counted, "problem": problem, "method": method, "given": given, "seed": seed}
        | {"setting": "{}", "tuned": tuned, "default": default, "auto": auto, "refused": None, "start": 1.0}
        | {"budget": budget, "violation": violation, "seconds": 0.1}
        | dict.fromkeys(["score", "gap", "lagrangian"], score * (1 + 0.01 * seed))
        | dict.fromkeys(["steps", "samples", "gradients", "projections", "lmos"], budget)
        for budget, score in zip((100, 10_000), scores, strict=True)
        for seed in range(4)
    ]
    return pd.DataFrame(table)


def test_winners_ranks_and_exceptions():
    parts = [
        made_up("csoa", (1.0, 0.3)),  # an exponent of 0.26, and 0.5 is published
        made_up("g-oco", (1.0, 0.1)),
        made_up("fw-csoa", (1.0, 0.9)),
        made_up("sfw", (1.0, 0.01), given=entrants.PENALTY),
        pd.DataFrame([{"source": "streams", "problem": "ball", "method": "csa", "given": "", "refused": "No."}]),
    ]
    found = report.board(pd.concat(parts))
    ranks = report.last_budget(found.standings).set_index("method")["rank"]
    assert ranks[["g-oco", "csoa", "fw-csoa"]].tolist() == [1, 2, 3]
    assert np.isnan(ranks["sfw"])  # not on equal terms
    ((sentence,),) = found.sentences.values()
    assert "g-oco wins with a score of 0.1" in sentence
    assert "CSOA comes 2nd of 3, at 3 times that. FWCSOA comes 3rd of 3, at 9 times that." in sentence
    assert "Given the optimal multipliers, sfw has 0.01" in sentence
    assert [line.split(",")[0] for line in found.exceptions] == [
        "csoa on ball (streams)",
        "fw-csoa on ball (streams)",
        "csa on ball (streams): refused",
    ]
    assert "exponent 0.26 [0.26, 0.26], published 0.50" in found.exceptions[0]
    assert "g-oco" in report.text(found)


def test_divisions_are_ranked_each_for_itself_and_auto_has_a_place():
    parts = [
        made_up("csoa", (1.0, 0.3)),
        # it measures its scales, and is better for it
        made_up("csoa", (1.0, 0.1), tuned=False, default=True, auto=True),
        made_up("fw-csoa", (1.0, 0.2)),
        made_up("fw-csoa", (1.0, 0.05), tuned=False, default=True),
        made_up("fw-csoa", (1.0, 0.4), counted="lmos"),
        made_up("mfw-csoa", (1.0, 0.5), counted="lmos", default=True),
    ]
    found = report.board(pd.concat(parts))
    last = report.last_budget(found.standings).set_index(["division", "method"])
    assert last["rank"].to_dict() == {
        ("streams", "csoa"): 2,
        ("streams", "fw-csoa"): 1,
        ("streams-defaults", "csoa"): 2,
        ("streams-defaults", "fw-csoa"): 1,
        ("streams-lmos", "fw-csoa"): 1,
        ("streams-lmos", "mfw-csoa"): 2,
        ("streams-lmos-defaults", "mfw-csoa"): 1,
    }
    assert set(found.rates.method) == {"csoa", "fw-csoa"}  # published rates are held against tuned runs and calls
    (sentence,) = found.sentences["streams-defaults"]
    assert '"auto" takes csoa: 2nd of 2, at 2 times that.' in sentence
    assert "auto" not in found.sentences["streams"][0]
    assert "10,000 LMO calls" in found.sentences["streams-lmos"][0]


def test_hidden_instances_have_divisions_of_their_own():
    known: Any = {"tuned": True, "default": True}
    other: Any = {"tuned": False, "default": True, "problem": "hidden-2-1"}
    parts = [made_up("csoa", (1.0, 0.3), **known), made_up("csoa", (1.0, 0.2), auto=True, **other)]
    found = report.board(pd.concat([*parts, made_up("g-oco", (1.0, 0.1), **other)]))
    last = report.last_budget(found.standings).set_index(["division", "method"])["rank"]
    assert last.to_dict() == {
        ("streams", "csoa"): 1,
        ("streams-defaults", "csoa"): 1,
        ("streams-hidden", "csoa"): 2,
        ("streams-hidden", "g-oco"): 1,
    }
    assert '"auto" takes csoa: 2nd of 2, at 2 times that.' in found.sentences["streams-hidden"][0]


def test_profiles_count_the_targets_that_were_met():
    worse = made_up("g-oco", (0.09, 5.0))  # better than a tenth of the start at first, and worse than it at the end
    other = made_up("g-oco", (2.0, 0.009), problem="simplex")  # nothing, then better than a hundredth
    never = made_up("csa", (2.0, np.nan))
    found = report.board(pd.concat([worse, other, never])).profiles.set_index(["method", "share"]).met
    quarter, half = 4 / len(report.TARGETS), 8 / len(report.TARGETS)  # four targets to a decade
    assert found["g-oco", 0.01] == pytest.approx(quarter / 2)
    assert found["g-oco", 1.0] == pytest.approx((quarter + half) / 2)
    assert found["csa", 1.0] == 0


def test_every_method_has_a_look_of_its_own_and_names_do_not_overlap():
    styles = drawing.styles([*tr.METHODS, "auto"])
    assert len({tuple(look.values()) for look in styles.values()}) == len(tr.METHODS) + 1
    figure, axes = new_figure(size=(4.6, 4.8))
    axis = axes[0, 0]
    axis.set(xscale="log", yscale="log", xlim=(1, 100), ylim=(1e-4, 1.0))
    names = list(tr.METHODS)[:28]
    ends = {name: (name, 100.0, 1e-4 if i < 9 else 0.02 if i < 20 else 1.0) for i, name in enumerate(names)}
    drawing._name_ends(axis, ends, styles, 100.0, 10.0, np.log10, lambda h: 10**h)
    heights = np.sort([np.log10(text.get_position()[1]) for text in axis.texts])
    assert len(heights) == 28
    assert np.diff(heights).min() > 0.1
    assert -4 < heights[0] < heights[-1] <= 0
    assert figure is axis.figure


def test_a_violation_that_stays_is_an_exception_and_noise_is_not():
    found = report.board(pd.concat([made_up("g-oco", (1.0, 0.1), violation=0.2)]))
    (said,) = found.exceptions
    assert said.startswith("g-oco on ball (streams), violation: exponent")
    assert said.endswith("published 0.50; 0.2 at the end")
    assert not report.board(pd.concat([made_up("g-oco", (1.0, 0.1), violation=-0.2)])).exceptions


def test_the_setting_is_chosen_by_seeds_of_its_own():
    table = pd.DataFrame(
        [
            {"setting": setting, "seed": seed, "budget": budget, "score": score}
            for setting, score in (("a", 1.0), ("b", 2.0))
            for budget in (1, 2)
            for seed in (0, runs.TUNING)
        ]
    )
    table.loc[table.seed == 0, "score"] = 3 - table.score  # "b" is better where the result is measured
    assert runs._chosen(table) == "a"
    table.loc[(table.setting == "a") & (table.budget == 2), "score"] = np.nan  # it diverged
    assert runs._chosen(table) == "b"


# ---- hidden instances ------------------------------------------------------------------------------------------------


def test_a_hidden_instance_is_solved_and_a_point_beside_is_found_out():
    solved = hidden("hidden-4-8")
    assert gap(solved) < 1e-12
    assert solved.slater > 0
    with jax.enable_x64(True):
        beside = dataclasses.replace(solved, x=0.99 * np.asarray(solved.x))
        assert gap(beside) > 1e-4


def test_of_hidden_instances_nothing_is_given_away(monkeypatch):
    monkeypatch.setattr(entrants, "hidden", lambda name: PROBLEMS["scalar"]())
    entrants.challenge.cache_clear()
    work = runs.units(dataclasses.replace(TINY, hidden=1, hidden_seed=2), ("csoa", "sfw", "pfs"))
    entrants.challenge.cache_clear()
    assert [unit.name for unit in work if "hidden" in unit.name] == [
        "streams-hidden-2-1-csoa",
        "finite-hidden-2-1-csoa",
    ]


@pytest.mark.slow
def test_on_hidden_instances_nothing_is_tuned():
    table = runs.compete("hidden-2-2", "csoa", "streams", dataclasses.replace(TINY, hidden=1))
    assert not table.tuned.any()
    assert table.default.all()
    assert len(table) == len(TINY.budgets) * TINY.seeds
    again = hidden.__wrapped__("hidden-2-2")
    jax.tree.map(np.testing.assert_array_equal, again.table, hidden("hidden-2-2").table)


# ---- from end to end -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_tiny_leaderboard_with_a_new_method(tmp_path, monkeypatch):
    monkeypatch.setitem(tr.METHODS, "toy", Toy)
    found = leaderboard(tmp_path, methods=("csoa", "toy"), size=TINY, progress=False)
    last = report.last_budget(found.standings).set_index(["division", "method"])
    plain = [name for name, division in DIVISIONS.items() if division.counted == "calls"]
    assert set(last.index) == {(division, name) for division in plain for name in ("csoa", "toy")}
    assert [last["rank"][division, name] for division, name in sorted(last.index)] == [1, 2] * 4
    assert last.loc[("streams", "csoa"), "samples"] == 80
    assert last.loc[("finite", "toy"), "gradients"] == 120
    assert last.loc[("streams-defaults", "csoa"), "coefficients"] == "{}"  # it measures its own scales
    assert last.loc[("streams-defaults", "toy"), "coefficients"] == '{"size": 1.0}'
    assert last.auto["streams-defaults", "csoa"]
    for file in (
        "leaderboard.csv",
        "rates.csv",
        "leaderboard.txt",
        "runs.csv.gz",
        "scores-streams.png",
        "scores-finite-defaults.png",
        "curves-finite.png",
        "rates.png",
    ):
        assert (tmp_path / file).stat().st_size > 100
    assert "toy" in (tmp_path / "leaderboard.txt").read_text()

    monkeypatch.setattr(runs, "compete", lambda *_: pytest.fail("computed again"))
    again = report.board(pd.read_csv(tmp_path / "runs.csv.gz"))  # the runs are all that others need
    assert again.sentences == found.sentences
    again = leaderboard(tmp_path, methods=("csoa", "toy"), size=TINY, progress=False)
    pd.testing.assert_frame_equal(again.standings, found.standings)
    with pytest.raises(contest.OtherSettingsError, match="seeds is 3 there and 4 here"):
        leaderboard(tmp_path, methods=("csoa",), size=dataclasses.replace(TINY, seeds=4))


def test_what_cannot_be_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no method 'cosa'"):
        leaderboard(tmp_path, methods=("cosa",))
    with pytest.raises(ValueError, match="processes is 0"):
        leaderboard(tmp_path, processes=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="expected a folder"):
        leaderboard(tmp_path / "file")


def test_parts_can_be_handed_to_another_process():
    work = runs.units(TINY, ("csoa",))
    again = pickle.loads(pickle.dumps(work))
    assert [unit.name for unit in again] == ["streams-scalar-csoa", "finite-scalar-csoa"]
    assert again[0].run.args == ("scalar", "csoa", "streams", TINY)


def test_the_default_size_has_all_problems():
    names = contest.FULL.problems("streams")
    assert set(PROBLEMS) < set(names)
    assert [name for name in names if is_hidden(name)] == [name_of(SEED, number) for number in range(1, 13)]
    assert SEED % 2  # even ones are to develop on
    assert contest.FULL.seeds >= 10  # enough for an interval
