"""The protocol on tables made by hand."""

import numpy as np
import pandas as pd
import pytest

from tightrope.lab.paper.fairness import Optimum
from tightrope.lab.paper.tuning import as_methods, best_gap, grid, least_violation, tuned

OPTIMUM = Optimum(np.zeros(2), 0.4, 0.05, 0.3)


def along(rows):
    """Two seeds of (upsilon0, objective, violation, p), which differ by as much up as down."""
    columns = ["upsilon0", "objective", "violation", "p"]
    tables = [pd.DataFrame(rows, columns=columns).assign(seed=seed) for seed in (0, 1)]
    return pd.concat([tables[0].assign(objective=tables[0].objective + 1e-4), tables[1]])


def test_least_violation_within_the_sacrifice_that_keeps_the_rule():
    table = along([(0, 0.400, 0.02, 0.79), (1, 0.402, 0.01, 0.85), (2, 0.4035, 0.001, 0.81), (4, 0.41, 0.0, 0.9)])
    choice = least_violation(table, ["upsilon0"], OPTIMUM, {"upsilon0": 0.0})
    assert choice.coefficients == {"upsilon0": 2.0}  # 4 gives up 2.5 % of F*
    assert choice.keeps_rule
    assert choice.violation == pytest.approx(0.001)


def test_the_rule_comes_before_the_violation():
    table = along([(0, 0.400, 0.02, 0.85), (1, 0.402, 0.0, 0.7)])
    assert least_violation(table, ["upsilon0"], OPTIMUM, {"upsilon0": 0.0}).coefficients == {"upsilon0": 0.0}


def test_equal_violations_go_to_the_better_objective():
    table = along([(0, 0.400, 0.02, 0.85), (1, 0.402, 0.0, 0.85), (2, 0.403, 0.0, 0.95)])
    assert least_violation(table, ["upsilon0"], OPTIMUM, {"upsilon0": 0.0}).coefficients == {"upsilon0": 1.0}


def test_where_nothing_keeps_the_rule_the_best_p_is_taken_and_said():
    table = along([(0, 0.400, 0.02, 0.6), (1, 0.402, 0.01, 0.75), (2, 0.403, 0.0, 0.7), (4, 0.41, 0.0, 0.9)])
    choice = least_violation(table, ["upsilon0"], OPTIMUM, {"upsilon0": 0.0})
    assert choice.coefficients == {"upsilon0": 1.0}
    assert not choice.keeps_rule
    assert "misses the rule with p = 0.75" in str(choice)


def test_a_start_that_is_not_there_is_a_sentence():
    with pytest.raises(ValueError, match="is not in the table"):
        least_violation(along([(0, 0.4, 0.0, 0.9)]), ["upsilon0"], OPTIMUM, {"upsilon0": 3.0})


def test_the_gap_does_not_reward_violation():
    """The second point is below F* because it violates; by duality F - F* + multiplier * violation is never negative."""
    table = pd.DataFrame({"eta0": [0.1, 1.0], "objective": [0.401, 0.385], "violation": [0.0, 0.1], "p": 0.9})
    assert best_gap(table, ["eta0"], OPTIMUM) == {"eta0": 0.1}


def test_both_methods_are_chosen_from_one_table():
    csoa = [(0.15, 0.01, 0.0, 0.42, 0.0, 0.6), (1.5, 0.01, 0.0, 0.401, 0.003, 0.7), (1.5, 0.01, 2.0, 0.402, 0.0, 0.82)]
    goco = [(0.5, 2.5, 0.43, 0.0, 0.9), (0.5, 0.25, 0.401, 0.0, 0.81)]
    names = ["eta0", "delta", "upsilon0", "objective", "violation", "p"]
    table = pd.concat(
        [
            pd.DataFrame(csoa, columns=names).assign(method="CSOA"),
            pd.DataFrame(goco, columns=["v0", "alpha0", *names[3:]]).assign(method="G-OCO"),
        ]
    ).assign(seed=0)
    choices = tuned(table, OPTIMUM)
    assert choices["CSOA"].coefficients == {"eta0": 1.5, "delta": 0.01, "upsilon0": 2.0}
    assert choices["G-OCO"].coefficients == {"v0": 0.5, "alpha0": 0.25}
    methods = as_methods(choices)
    assert (methods["CSOA"].steps.tightening(100), methods["G-OCO"].steps.tightening(100)) == (0.2, 0.0)


def test_grids_go_through_their_middle():
    assert grid(0.15, 5, 0, np.sqrt(10)) == pytest.approx([0.15, 0.4743, 1.5, 4.743, 15.0])
    assert grid(2.5, 3, 2, 10.0).tolist() == [0.025, 0.25, 2.5]
