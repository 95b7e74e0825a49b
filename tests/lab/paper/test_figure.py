"""The figures' verdicts on made-up tables, and a tiny run of each."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest

import tightrope as tr
from tightrope.lab.paper import FIGURES, Size, fig1, fig2, fig4, reproduce
from tightrope.lab.paper.fairness import (
    C,
    Experiment,
    Optimum,
    People,
    adult_task,
    coordinates,
    measure,
    paper_problem,
    with_measures,
)
from tightrope.lab.paper.tuning import UPSILON0, TunedCoefficients

TINY = Size(
    seeds=2,
    rows=300,
    tests=200,
    passes=2,
    records=4,
    tuning_seeds=2,  # and four points each way: shaped as the sweep of fig1, compiled once
    points=4,
    draws=2,
    drawn=200,
    data_seeds=2,
    synthetic_rows=200,
    synthetic_passes=2,
)
SEEDS = range(10)
NOBODY = People(np.zeros((0, 1)), np.zeros(0), np.zeros(0))
TASK = Experiment(NOBODY, NOBODY, NOBODY, C, Optimum(np.zeros(1), 0.4, C, 0.3))


def verdicts(claims):
    return [claim.verdict for claim in claims]


# ---- figure 1 --------------------------------------------------------------------------------------------------------


def ends(excess, rise, smaller=lambda u: 0.0):
    """Ends of runs from functions of upsilon0, with a little difference between seeds; upsilon = upsilon0/100."""
    rows = []
    for seed, u in itertools.product(SEEDS, UPSILON0):
        e, m = excess(u) + 1e-5 * seed, smaller(u)
        rows.append((seed, u, u / 100, 10_000, 0.4 * (1.1 + rise(u)), e, max(e, 0), m, m + 0.3, 0.8, 0.7))
    columns = ["seed", "upsilon0", "upsilon", "step", "objective", "excess", "violation"]
    return pd.DataFrame(rows, columns=[*columns, "dual cov", "dual -cov", "accuracy", "p"])


@pytest.mark.parametrize(
    ("excess", "rise", "expected"),
    [
        (lambda u: 0.01 - 0.01 * u, lambda u: 1e-4 * u, ["reproduced"] * 3),
        (lambda u: 0.01 - 0.01 * u, lambda u: 2e-4 * u, ["reproduced", "reproduced", "partly"]),
        (lambda u: 0.01 - 0.002 * u, lambda u: 4e-3 * u, ["reproduced", "partly", "not reproduced"]),
        (lambda u: 0.01, lambda u: 1e-3 * u, ["not reproduced"] * 3),
    ],
)
def test_fig1_what_the_tightening_buys(excess, rise, expected):
    assert verdicts(fig1.paper_claims(ends(excess, rise), TASK, "T = 10,000")) == expected


def test_fig1_what_the_analysis_predicts():
    def check(smaller, excess):
        return verdicts(fig1.predictions(ends(excess, lambda u: 0.0, smaller), TASK, "T = 10,000"))

    apart = lambda u: float(u) if u >= 5 else 0.01  # noqa: E731
    assert check(apart, lambda u: 0.001 - C) == ["reproduced", "reproduced"]
    assert check(lambda u: 0.01, lambda u: 1e-3 * u) == ["not reproduced", "not reproduced"]
    assert check(lambda u: 0.4 if u >= 20 else 0.01, lambda u: 0.8 * C - C) == ["partly", "partly"]
    assert fig1.predictions(ends(lambda u: 0.0, lambda u: 0.0).query("upsilon < 0.05"), TASK, "") == []


def test_the_averages_of_a_sweep_are_read_in_order():
    """There are more than ten coordinates, so that the order of their names is not that of their numbers."""
    task = adult_task(TINY)
    problem, data = paper_problem(task.train, task.c)
    method = tr.CSOA(eta0=np.array(fig1.ETA0), upsilon0=np.array(UPSILON0))  # shaped as in the figure: compiled once
    table = tr.sweep(problem, data, method, steps=TINY.rows, seeds=range(TINY.seeds), track=coordinates)
    seen = with_measures(table, lambda x: measure(x, task))
    assert seen.objective.tolist() == pytest.approx(table["full objective"].tolist())
    assert seen.excess.tolist() == pytest.approx(table[["full cov", "full -cov"]].max(axis=1).tolist())


# ---- figure 2 --------------------------------------------------------------------------------------------------------


def batch(p):
    drawn = [("drawn", draw, C, p + 0.001 * draw) for draw in range(5)]
    everybody = [("all", 0, c, p + 0.05 - c) for c in fig2.LEVELS]
    return pd.DataFrame([*drawn, *everybody], columns=["rows", "draw", "c", "p"])


@pytest.mark.parametrize(("p", "verdict"), [(0.79, "reproduced"), (0.76, "partly"), (0.73, "not reproduced")])
def test_fig2_the_80_percent_rule(p, verdict):
    claim = fig2.threshold_claim(batch(p))
    assert claim.verdict == verdict
    needed = 0.05 + p - 0.8
    assert f"up to c = {needed:.3g}" in claim.evidence or needed < min(fig2.LEVELS)


def test_fig2_where_tuning_leads():
    same = TunedCoefficients({"eta0": 0.15, "delta": 0.01, "upsilon0": 80.0}, True, 0.4, 0.0, 0.81)
    partly = TunedCoefficients({"v0": 0.5, "alpha0": 0.25}, False, 0.4, 0.0, 0.7)
    other = TunedCoefficients({"v0": 5.0, "alpha0": 0.25}, True, 0.4, 0.0, 0.9)
    assert verdicts(fig2.tuning_claims({"CSOA": same, "G-OCO": partly})) == ["reproduced", "partly", "partly"]
    assert verdicts(fig2.tuning_claims({"CSOA": same, "G-OCO": other}))[1:] == ["not reproduced", "reproduced"]
    none = {"CSOA": TunedCoefficients(same.coefficients, False, 0.4, 0.0, 0.5), "G-OCO": partly}
    claim = fig2.tuning_claims(none)[-1]
    assert claim.verdict == "not reproduced"
    assert "best p% was taken" in claim.evidence


def runs(csoa, goco):
    """Runs whose objective, excess, accuracy and swing of p% are given for each method."""
    rows = []
    for name, (objective, excess, accuracy, swing) in {"CSOA": csoa, "G-OCO": goco}.items():
        for seed, step, point in itertools.product(SEEDS, range(1, 21), ("average", "last")):
            p = 0.7 + (1 + 0.01 * seed) * swing * (-1) ** step
            rows.append((name, seed, step, point, objective, objective / 0.4 - 1, max(excess, 0), excess, accuracy, p))
    columns = ["method", "seed", "step", "point", "objective", "error", "violation", "excess", "accuracy", "p"]
    return pd.DataFrame(rows, columns=columns)


GOOD = (0.42, -0.01, 0.80, 0.01)


@pytest.mark.parametrize(
    ("csoa", "goco", "expected"),
    [
        (GOOD, (0.425, 0.01, 0.805, 0.05), ["reproduced"] * 6),
        ((0.42, 0.004, 0.80, 0.04), (0.435, 0.004, 0.815, 0.05), ["partly"] * 2 + ["not reproduced"] + ["partly"] * 3),
        (GOOD, (0.42, -0.005, 0.80, 0.05), ["reproduced"] * 2 + ["partly"] + ["reproduced"] * 3),
        ((0.42, 0.01, 0.80, 0.05), (0.45, -0.01, 0.84, 0.04), ["not reproduced"] * 6),
    ],
)
def test_fig2_the_comparison(csoa, goco, expected):
    assert verdicts(fig2.comparison_claims(runs(csoa, goco), "made up", C)) == expected


# ---- figure 4 --------------------------------------------------------------------------------------------------------


def paths(turn, p, accuracy):
    """Paths over c from functions of (phi, c), with a little difference between data sets."""
    rows = []
    for phi, c, data in itertools.product(fig4.ANGLES, [*fig4.LEVELS, fig4.FREE], SEEDS):
        angle = 0.0 if c == fig4.FREE else turn(phi, c) + 0.01 * data
        rows.append((phi, c, data, angle, angle, p(phi, min(c, 1.0)), accuracy(phi, min(c, 1.0))))
    return pd.DataFrame(rows, columns=["phi", "c", "data", "turn", "batch_turn", "p", "accuracy"])


def test_fig4_the_boundary():
    flat = lambda phi, c: 0.5  # noqa: E731
    more = lambda phi, c: (60 if phi == "pi/8" else 50) * (1 - c)  # noqa: E731
    assert verdicts(fig4.turning_claims(paths(more, flat, flat))) == ["reproduced"] * 3
    mixed = lambda phi, c: 50 * (1 - c) + (1 if phi == "pi/8" else 0) * (0.2 - c)  # noqa: E731
    assert verdicts(fig4.turning_claims(paths(mixed, flat, flat)))[2] == "partly"
    less = lambda phi, c: (40 if phi == "pi/8" else 50) * c  # noqa: E731
    assert verdicts(fig4.turning_claims(paths(less, flat, flat))) == ["not reproduced"] * 3


@pytest.mark.parametrize(
    ("p", "accuracy", "expected"),
    [
        (lambda phi, c: 1 - c / 2, lambda phi, c: 0.8 + 0.01 * c, ["reproduced"] * 3),
        (lambda phi, c: 1 - c / 2, lambda phi, c: 0.8 + 0.04 * c, ["reproduced", "reproduced", "partly"]),
        (lambda phi, c: c / 2, lambda phi, c: 0.8 + 0.2 * c, ["not reproduced"] * 3),
        (
            lambda phi, c: 1 - abs(c - 0.25),
            lambda phi, c: 0.7 + 0.2 * c if phi == "pi/4" else 0.8,
            ["partly", "not reproduced", "not reproduced"],
        ),
    ],
)
def test_fig4_the_price_of_fairness(p, accuracy, expected):
    assert verdicts(fig4.tradeoff_claims(paths(lambda phi, c: 0.0, p, accuracy))) == expected


@pytest.mark.parametrize(
    ("excess", "error", "expected"),
    [
        (-0.01, 0.01, ["reproduced"] * 2),
        (0.09 * fig4.SHOWN, 0.04, ["partly"] * 2),
        (fig4.SHOWN, 0.1, ["not reproduced"] * 2),
    ],
)
def test_fig4_convergence(excess, error, expected):
    table = runs((0.4 * (1 + error), excess, 0.8, 0.0), GOOD)
    assert verdicts(fig4.convergence_claims(table[table.method == "CSOA"])) == expected


def test_fig4_lines_are_where_the_score_is_zero():
    u, v = fig4._line(0.3, -2.0, 1.5)
    assert 0.3 * u - 2.0 * v + 1.5 == pytest.approx([0, 0], abs=1e-12)
    assert np.hypot(u[1] - u[0], v[1] - v[0]) == pytest.approx(60)


# ---- everything, tiny ------------------------------------------------------------------------------------------------

WRITTEN = {
    "fig1": ["fig1.csv", "fig1.png", "fig1-iterations.png"],
    "fig2": ["fig2.csv", "fig2-tuning.csv", "fig2-batch.csv", "fig2.png", "fig2-paper-passes2.png", "fig2-tuned.png"],
    "fig4": ["fig4-convergence.csv", "fig4-path.csv"]
    + [f"fig4-{name}.png" for name in ("convergence", "tradeoff", "boundaries")],
}


@pytest.mark.parametrize(  # figure 3 has tests of its own
    "name", [pytest.param(name, marks=[] if name == "fig1" else pytest.mark.slow) for name in WRITTEN]
)
def test_a_tiny_run_writes_everything(name, tmp_path):
    claims = reproduce([name], tmp_path, size=TINY)[name]
    assert len(claims) >= 6
    for file in [*WRITTEN[name], f"{name}.txt"]:
        assert (tmp_path / file).stat().st_size > (10_000 if file.endswith("png") else 100), file
    stored = json.loads((tmp_path / f"{name}.verdicts.json").read_text())
    assert [row["sentence"] for row in stored] == [claim.sentence for claim in claims]
    assert len(list((tmp_path / "parts").iterdir())) == len(FIGURES[name].units(TINY))
    main = pd.read_csv(tmp_path / WRITTEN[name][0])
    assert set(main.seed) == set(range(TINY.seeds))
    assert np.isfinite(main.objective).all()


def test_units_have_names_and_settings_of_their_own():
    for figure in FIGURES.values():
        units = figure.units(Size())
        assert len({unit.name for unit in units}) == len(units)
        assert len({json.dumps(unit.settings, sort_keys=True) for unit in units}) == len(units)
