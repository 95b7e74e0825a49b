"""Points that users give, as a start, to be certified or strictly inside: taken where they are meant, else a sentence."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import tightrope as tr

ROWS = np.random.default_rng(0).normal(0.5, 0.2, size=(400, 1))
PROBLEM = tr.Problem(
    lambda x, theta: jnp.sum((x - theta) ** 2), lambda x, theta: x - theta, tr.Box(-1.0, 1.0, shape=1), levels=1.0
)


class Rude:
    """Its repr fails."""

    def __repr__(self):
        raise RuntimeError("no")


WRONG = [
    None, "x", b"x", {}, [], (), {"w": [0.5]}, [[0.5], [0.5, 1.0]], [None], ["0.5"], [0.5, 0.5], 0.5, np.zeros((1, 1)),
    object(), Rude(), lambda x: x, 1j, [1j], {0.5}, 10**400, [10**5000], [np.nan], [1e300] * 2, np.array("x"),
    np.array([None]), np.zeros(0), np.array(["2020-01-01"], "M8[D]"), pd.NA, [pd.NA], pd.DataFrame({"a": [0.5]}), tr.CSOA,
    range(2), iter([0.5]), np.array([1j]), float("inf"), [True, False],
]  # fmt: skip


def certified(point):
    return tr.certify(PROBLEM, point, ROWS).x


def started(point):
    return tr.minimize(PROBLEM, ROWS, x0=point, method="csoa", steps=1, output="last").x


def feasible(point):
    options = {"method": "csoa", "steps": 2, "output": "feasible"}
    return tr.minimize(PROBLEM, ROWS, feasible_point=point, **options).x


def watched(point):
    run = tr.Online(PROBLEM, example=ROWS[:0])
    run.certify(point, ranges=(-9.0, 9.0))
    run.update(ROWS[:9])
    return run.certificate.x


@pytest.mark.parametrize("use", [certified, started, feasible, watched])
@pytest.mark.parametrize("point", [[0.5], (0.5,), np.array([0.5]), jnp.array([0.5]), pd.Series([0.5]), [1]])
def test_numbers_in_a_list_are_a_point_where_points_are_one_array(use, point):
    assert np.shape(use(point)) == (1,)


@pytest.mark.parametrize("use", [certified, started, feasible, watched])
@pytest.mark.parametrize("point", WRONG[1:], ids=lambda point: type(point).__name__)
def test_what_is_no_point_is_refused_in_a_sentence(use, point):
    with pytest.raises(
        (TypeError, ValueError), match=r"(?s)^(x0|point|feasible_point) (is|has) .*expected .*\.$"
    ) as caught:
        use(point)
    assert len(str(caught.value)) < 400


def test_without_a_point_there_is_nothing_to_certify():
    with pytest.raises(TypeError, match="point is None; expected arrays of real numbers of shape"):
        tr.certify(PROBLEM, None, ROWS)


@pytest.mark.parametrize(
    "ranges", ["ab", 5, (1j, 2), ("a", "b"), [(0, 1, 2)], [5], {"x": (0, 1)}, (0, 10**400), {1, "a"}, (2, 1)]
)
def test_ranges_that_are_none_are_refused_in_a_sentence(ranges):
    with pytest.raises((TypeError, ValueError), match=r"(?s)^ranges.*expected .*\.$"):
        tr.certify(PROBLEM, [0.5], ROWS, ranges=ranges)
