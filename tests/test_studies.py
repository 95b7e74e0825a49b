"""A small version of `make verify`: the same code, fewer seeds and shorter horizons."""

import importlib

import numpy as np
import pandas as pd
import pytest

from studies import brake, defaults, finite_data, fit_rates, rates, streams, walks
from studies import projection_free as free
from tightrope.datasets import adult_label_encoded

pytestmark = pytest.mark.slow
HORIZONS = (200, 2_000, 20_000)  # two decades


@pytest.fixture(scope="module")
def table():
    return rates.measure(["ball"], rates.CASES, HORIZONS, range(16))


def test_every_claim_holds(table):
    verdicts = rates.claims(table)
    assert len(verdicts) == 4 * 4 + 3
    failed = [c for c in verdicts[~verdicts.holds].claim if "multipliers" not in c]  # these need longer runs
    assert not failed


def test_the_tightening_is_at_most_half_the_slater_margin(table):
    for name in set(table.problem):
        for case in rates.CASES.values():
            assert case.method.steps.tightening(rates.HORIZONS[0]) <= rates.EXACT[name]().slater / 2


def test_without_tightening_the_violation_is_seen(table):
    """The claims can fail: the untightened method does not pass for a tightened one."""
    loose = table[table.case == "CSOA, upsilon = 0"].assign(case="CSOA")
    verdicts = rates.claims(loose)
    assert not verdicts[verdicts.claim.str.contains("violation <= 0")].holds.any()


def test_report_and_picture(table, tmp_path):
    rates.draw(table, tmp_path / "rates.png")
    assert (tmp_path / "rates.png").stat().st_size > 10_000
    assert "| ball | CSOA |" in rates.report(table)


def test_the_fit_on_samples_and_the_page_of_it():
    table = fit_rates.measure(["scalar"], (1_000, 10_000), 12, 12)
    gaps = fit_rates.quantities(table, fit_rates.EXACT["scalar"]())["lagrangian"].groupby(table.step).mean()
    assert gaps.iloc[1] < gaps.iloc[0] / 3
    assert "| scalar | 10,000 | 12 |" in fit_rates.report(table, [])


def test_the_brake_and_the_page_of_it():
    table = brake.measure([300], 48)
    braked = table[table.method != "CSOA"]
    assert (braked.z <= 3).all()
    assert (braked.false <= 0.1).all()
    rare = table[table.problem == "one in a hundred"].set_index("method").z
    assert rare["CSOA"] > 3  # what it is for
    assert "braked cells 0 have a mean above zero" in brake.report(table, 48)


def test_the_page_of_strangers_streams():
    """Of rows that are made up: the best of the configurations stands for the tuned, and what violates is counted."""
    row = {"seed": 70, "family": "cvar", "T": 1000, "cpu": 0.1, "configuration": 0}
    merits, rows = {"auto": 0.1, "plain": 0.2, "csoa": 0.4}, []
    for repeat in range(4):
        noise = 0.01 * (-1) ** repeat
        rows += [
            row | {"way": w, "repeat": repeat, "merit": m, "h": [noise + (w == "plain")]} for w, m in merits.items()
        ]
        rows += [
            row | {"way": "tuned", "repeat": repeat, "merit": m, "h": [noise], "configuration": k}
            for k, m in enumerate((0.9, 0.3, np.nan))
        ]
    page = streams.page({"unseen": rows})
    assert "| significant violations | 0 of 1 | 1 of 1 | 0 of 1 | 0 of 1 |" in page
    assert "| cvar | 1000 | 0.1 | 0.2 | 0.4 | 0.3 | 0/1/0/0 |" in page


# ---- data at hand ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adult():
    return finite_data.Instance(*adult_label_encoded())


def test_adult_in_fifteen_passes_feasible_to_six_digits(adult):
    precision = "float64"  # `make verify` has both
    table = finite_data.measure(adult, precision, range(5))
    assert (table.passes <= 15).all()
    assert (table.excess <= 0).all()
    assert (table.gap <= finite_data.TARGETS[precision]).all()
    other = pd.DataFrame({"problem": ["lp"], "seeds": [1], "never worse": ["1 of 1"]})
    assert "| svrg-csoa |" in finite_data.report(table, other, other, other, other)


def test_the_target_can_be_missed(adult):
    """The target can be missed."""
    table = finite_data.measure(adult, "float64", range(1), method="g-oco")
    assert (table.gap > 1e-5).all()


# ---- no coefficients -------------------------------------------------------------------------------------------------


def test_the_page_of_defaults_says_where_they_miss():
    table = defaults.beside(defaults.measure(["scalar", "infeasible"], (1_000,), range(4)))
    assert table[["problem", "method"]].to_numpy().tolist() == [["scalar", name] for name in defaults.METHODS]
    assert (table["merit"] > 0).all()
    bad = table.assign(**{"merit": 4 * table["best merit"], "output violated": 1, "output z": 9.0, "run violated": 0})
    assert len(defaults.missed(bad)) == 2 * len(defaults.METHODS)
    assert "scalar, CSOA, 1,000 steps: 4.0 times the best merit" in defaults.report(bad)


# ---- projection-free -------------------------------------------------------------------------------------------------


def test_the_page_on_split_csoa_says_what_does_not_hold(tmp_path):
    """Runs that are made up: gaps that fall as T^-1/2 and H = -0.01, then gaps that stand still and H = 0.01."""

    def runs(case, power, H):
        return [
            {
                "problem": "simplex",
                "case": case,
                "T": T,
                "seed": seed,
                "gap": (1 + 0.1 * seed) * T**power,
                "H0": H,
                "H1": -1.0,
            }
            for T in free.HORIZONS
            for seed in range(4)
        ]

    bare = runs("Split-CSOA, no margin", -0.5, 0.02)
    found = {"problem": "simplex", "T": 10, "seeds": 3, "predicted": 1.0, "margin": 0.1, "gap": 0.5, "gap half": 0.1}
    theorems = pd.DataFrame([found | {"H": -0.1, "half": 0.01}])
    one = {"problem": "simplex", "T": 10, "runs": 9, "predicted": 1.0, "margin": 0.1, "gap": 0.5, "largest gap": 0.6}
    single = pd.DataFrame([one | {"H": -0.1, "largest H": -0.05, "failed": 0.0}])
    for power, H, holds in ((-0.5, -0.01, True), (0.0, 0.01, False)):
        table = pd.DataFrame(runs("Split-CSOA", power, H) + bare)
        rates = free.slopes(table)
        verdicts = dict(free.claims(rates, theorems, single))
        assert verdicts[f"simplex: slope {power:.2f} <= -0.45"] is holds
        assert verdicts["simplex: no constraint is significantly above zero at any T"] == holds
        assert verdicts["simplex: without a margin the violation is significantly above zero at every T"]
        assert ("**does not hold**" in free.report(table, rates, theorems, single)) is not holds
    free.draw_runs(single, tmp_path / "runs.png")
    assert (tmp_path / "runs.png").stat().st_size > 1_000


# ---- walks -----------------------------------------------------------------------------------------------------------


def test_a_walk_knows_files_and_ways_back(tmp_path, monkeypatch):
    (tmp_path / "first.py").write_text("import second\n\ndef begin():\n    second.go()\n\ndef again():\n    pass\n")
    (tmp_path / "second.py").write_text(
        "def go():\n    import first\n    first.again(), here()\n\ndef here():\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    first = importlib.import_module("first")

    with walks.Tracer(tmp_path) as seen:
        first.begin()
        first.again()
    assert (seen.order, list(seen.pairs)) == (["first", "second"], [("first", "second"), ("second", "first")])
    assert seen.walk == walks.Walk(files=2, returns=1, runs=0)


def test_a_call_that_walks_farther_than_its_bar_is_named():
    call = walks.calls()["minimize(rows)"]
    seen = walks.walked(call)
    assert {"_minimize", "evidence/gap", "loop/prepare"} <= set(seen.order)
    assert not {"tree", "precision"} & set(seen.order)
    found = {"minimize(rows)": seen.walk}
    assert walks.past_their_bars(found) == []
    assert "| minimize(rows) |" in walks.report(found)[2]
    more = seen.walk._replace(runs=2)
    assert walks.past_their_bars({"minimize(rows)": more}) == ["minimize(rows): runs 2, where 1 is the bar"]
