"""What a snapshot is worth, and which is the better point to pull towards: by hand."""

from typing import Any

import jax.numpy as jnp
import pytest

from tightrope.methods.merit import Merit, _safer
from tightrope.methods.snapshot import Snapshot


def at(f: float, *h: float) -> Snapshot:
    nothing: Any = None
    return Snapshot(nothing, nothing, jnp.asarray(f), jnp.asarray(h), nothing, nothing)


def test_violations_cost_the_longest_pull_or_their_price_whichever_is_more():
    def merit(*prices: float) -> float:
        seen = Merit(at(0.0), at(3.0, -1.0, -1.0), jnp.asarray(prices), jnp.asarray(0.0), jnp.asarray(0.0))
        return float(seen.merit(jnp.asarray(1.0), jnp.asarray([1.0, 0.1])))

    assert merit(0.0, 0.0) == pytest.approx(1 + (3 - 1) / 2)  # h_1 = 1 against -1: half way
    assert merit(0.5, 1.0) == pytest.approx(1 + (3 - 1) / 2)
    assert merit(2.0, 1.0) == pytest.approx(1 + 2 + 0.1)


def test_inside_the_constraints_the_cheaper_point_for_its_margin_is_the_safer_one():
    def safer(a: Snapshot, b: Snapshot, *slopes: float) -> bool:
        return bool(_safer(a, b, jnp.asarray(slopes), jnp.asarray(0.0)))

    assert safer(at(1.0, -1.0), at(5.0, -2.0), 1.0)  # 1 for a margin of 1, and not 2.5
    assert not safer(at(5.0, -2.0), at(1.0, -1.0), 1.0)
    assert not safer(at(0.1, 0.5), at(9.0, -1.0), 1.0)  # outside, the violation counts
    assert safer(at(9.0, 0.1), at(0.1, 0.5), 1.0)
    assert safer(at(1.0, -1.0, -8.0), at(1.0, -0.5, -9.0), 1.0, 10.0)  # in units of slopes
