import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tightrope.tree import (
    Mean,
    add_scaled,
    all_finite,
    astype,
    dot,
    float_dtype,
    norm,
    pytree,
    ravel,
    replace,
    set_field,
    static,
)


@pytree
class Point:
    x: float
    label: str = static(default="a")

    def __post_init__(self):
        if not isinstance(self.x, float):
            raise TypeError("x must be a float")
        set_field(self, "x", abs(self.x))


def test_fields_are_leaves_and_static_fields_are_structure():
    assert jax.tree.leaves(Point(2.0)) == [2.0]
    assert jax.tree.structure(Point(2.0)) == jax.tree.structure(Point(5.0))
    assert jax.tree.structure(Point(2.0)) != jax.tree.structure(Point(2.0, label="b"))
    assert jax.tree_util.keystr(jax.tree_util.tree_leaves_with_path(Point(2.0))[0][0]) == ".x"


def test_instances_are_frozen_and_normalised_once():
    point = Point(-2.0)
    assert point.x == 2.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 3.0  # pyright: ignore[reportAttributeAccessIssue]


def test_rebuilding_from_leaves_skips_validation():
    with pytest.raises(TypeError):
        Point("no")  # pyright: ignore[reportArgumentType]
    assert jax.tree.map(lambda v: -v, Point(2.0)).x == -2.0
    assert replace(Point(2.0), x=None).x is None
    assert float(jax.jit(lambda p: p.x * 2)(Point(2.0))) == 4.0


def test_static_fields_decide_what_is_compiled_and_leaves_do_not():
    traced = []

    @jax.jit
    def double(point):
        traced.append(point.label)
        return 2 * point.x

    for point in (Point(1.0), Point(2.0), Point(1.0, label="b")):
        double(point)
    assert traced == ["a", "b"]


def test_a_compensated_mean_keeps_its_digits_where_a_plain_sum_drifts():
    groups, size, value = 156_250, 64, np.float32(0.1)  # 1e7 terms

    @jax.jit
    def both(v):
        def add(_, sums):
            return sums[0].add(v), sums[1] + v

        def group(_, sums):
            mean, plain = jax.lax.fori_loop(0, size, add, sums)
            return mean.close_group(), plain

        mean, plain = jax.lax.fori_loop(0, groups, group, (Mean.zeros_like(v), jnp.zeros_like(v)))
        return mean.sum(), plain

    total, plain = both(jnp.asarray(value))
    exact = groups * size * float(value)
    assert total.dtype == jnp.float32
    assert abs(float(total) / exact - 1) < 1e-6
    assert abs(float(plain) / exact - 1) > 1e-3


def test_a_sum_of_trees_counts_closed_groups_and_the_open_one():
    mean = Mean.zeros_like({"a": jnp.zeros(2)})
    mean = mean.add({"a": jnp.array([1.0, 2.0])}).add({"a": jnp.array([5.0, 6.0])}).close_group()
    mean = mean.add({"a": jnp.array([0.5, 0.0])})
    np.testing.assert_array_equal(mean.sum()["a"], [6.5, 8.0])
    np.testing.assert_array_equal(mean.total["a"], [6.0, 8.0])


def test_astype_changes_floats_only():
    tree = astype({"w": np.ones(2), "label": np.arange(3), "c": 0.5}, jnp.float32)
    assert [tree[k].dtype for k in ("w", "c")] == [jnp.float32, jnp.float32]
    assert jnp.issubdtype(tree["label"].dtype, jnp.integer)


def test_float_dtype_is_that_of_the_floats_or_the_default():
    assert float_dtype({"a": jnp.zeros(2, jnp.float32), "b": jnp.arange(3)}) == jnp.float32
    assert float_dtype((jnp.zeros(2, jnp.float32), jnp.zeros(2))) == jnp.float64
    assert float_dtype(jnp.arange(3)) == jnp.float64


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_all_finite_finds_a_bad_number_in_any_leaf(bad):
    good = {"a": jnp.zeros(3), "b": jnp.arange(2)}
    assert all_finite(good)
    assert all_finite({"b": jnp.arange(2)})
    assert not all_finite({**good, "c": jnp.array([0.0, bad])})


@pytest.mark.parametrize("tree", [jnp.arange(6.0).reshape(2, 3), {"w": jnp.arange(3.0), "b": jnp.array(7.0)}])
def test_ravel_gives_a_vector_and_the_way_back(tree):
    vector, back = ravel(tree)
    assert vector.ndim == 1
    jax.tree.map(np.testing.assert_array_equal, back(vector), tree)


def test_arithmetic_treats_a_tree_as_one_vector():
    x, y = {"a": jnp.array([1.0, 2.0]), "b": jnp.array(2.0)}, {"a": jnp.array([0.0, 1.0]), "b": jnp.array(-1.0)}
    assert float(dot(x, y)) == 0.0
    assert float(norm(x)) == 3.0
    np.testing.assert_array_equal(add_scaled(x, 2.0, y)["a"], [1.0, 4.0])
