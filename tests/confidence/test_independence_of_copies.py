"""Copies of rows are told from discrete rows that repeat themselves."""

import numpy as np
import pytest

from tightrope.confidence import copies


def labelled(rng, n, share=0.3):
    return np.column_stack([rng.normal(size=n), rng.random(n) < share])


def drawn_again(rng, rows):
    few = rows[rows[:, 1] > 0]
    return np.concatenate([rows, few[rng.integers(0, len(few), len(rows) - 2 * len(few))]])


COPIES = {
    "every row three times": lambda rng: np.repeat(rng.normal(size=(200, 1)), 3, axis=0),
    "some twice": lambda rng: np.concatenate([a := rng.normal(size=(500, 2)), a[:60]]),
    "a class five times, the other three": lambda rng: np.repeat(a := labelled(rng, 200), np.where(a[:, 1], 5, 3), axis=0),
    "a class drawn again at random": lambda rng: drawn_again(rng, labelled(rng, 500, 0.1)),
    "a bootstrap": lambda rng: rng.normal(size=(500, 2))[rng.integers(0, 500, 500)],
    "a join": lambda rng: np.repeat(rng.normal(size=(300, 2)), rng.geometric(0.3, 300), axis=0),
    "a class five times, the other three, rounded": lambda rng: np.repeat(
        a := np.round(labelled(rng, 400), 2), np.where(a[:, 1], 5, 3), axis=0
    ),
    "a rounded column four times": lambda rng: np.repeat(np.round(rng.normal(size=(500, 1)), 2), 4, axis=0),
    "whole numbers": lambda rng: np.repeat(rng.integers(0, 1000, (300, 3)), 3, axis=0),
}  # fmt: skip
DRAWS = {
    "one row, few times": lambda rng: np.full((8, 2), 0.5),
    "distinct": lambda rng: rng.normal(size=(300, 3)),
    "cells": lambda rng: rng.integers(0, 3, (300, 2)),
    "few cells of few rows": lambda rng: rng.integers(0, 3, (60, 2)),
    "0 and 1": lambda rng: rng.integers(0, 2, (50, 1)),
    "ages": lambda rng: rng.normal(40, 12, (500, 1)).astype(int),
    "ages and labels": lambda rng: np.column_stack([rng.normal(40, 12, 500).astype(int), rng.integers(0, 2, 500)]),
    "rounded": lambda rng: np.round(np.exp(rng.normal(8, 1, (1000, 1))), -2),
    "one-hot": lambda rng: np.concatenate([np.eye(k)[rng.integers(0, k, 400)] for k in (6, 5, 9)], axis=1),
    "mostly zeros": lambda rng: rng.normal(size=(500, 3)) * (rng.random((500, 1)) < 0.3),
    "answers that go together": lambda rng: np.round(rng.normal(0, 2, (500, 1)) + rng.normal(0, 0.5, (500, 4))),
    "rounded, with labels": lambda rng: np.round(labelled(rng, 1500), 2),
    "counts": lambda rng: rng.poisson(6, (300, 2)),
    "a long tail": lambda rng: rng.zipf(1.5, (800, 1)),
}


@pytest.mark.parametrize("case", COPIES)
def test_copies_are_found_and_each_row_is_left_once(case):
    for seed in range(5):
        rows = COPIES[case](np.random.default_rng(seed))
        rows = np.random.default_rng(1).permutation(rows)
        once = copies(rows)
        assert once is not None
        assert len(once) == len(np.unique(rows, axis=0)) == len(np.unique(rows[once], axis=0))


@pytest.mark.parametrize("case", DRAWS)
def test_draws_of_discrete_laws_are_let_be(case):
    assert all(copies(DRAWS[case](np.random.default_rng(seed))) is None for seed in range(20))


def test_a_row_that_is_common_hides_no_copies_of_others():
    rows = np.repeat(np.random.default_rng(0).normal(size=(100, 2)), 3, axis=0)
    mixed = np.concatenate([rows, np.zeros((400, 2))])
    found = copies(mixed)
    assert found is not None
    assert len(found) == 100 + 1


def test_arrays_side_by_side_are_one_table():
    table = np.repeat(np.random.default_rng(0).normal(size=(50, 3)), 2, axis=0)
    one, two = copies(table), copies([table[:, 0], table[:, 1:]])
    assert one is not None
    assert two is not None
    assert np.array_equal(one, two)
