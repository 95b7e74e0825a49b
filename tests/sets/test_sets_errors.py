"""What a set refuses, and the sentences it refuses with."""

import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import Mute

from tightrope._errors import MissingOracleError
from tightrope.sets import (
    Box,
    GroupBall,
    L1Ball,
    L2Ball,
    LinfBall,
    NuclearBall,
    Polytope,
    Product,
    Shape,
    Simplex,
    Spectraplex,
)

SQUARE = np.vstack([np.eye(2), -np.eye(2)])


@pytest.mark.parametrize(
    "make",
    [
        L1Ball,
        L2Ball,
        LinfBall,
        Simplex,
        lambda r: GroupBall(r, [0, 1]),
        lambda r: NuclearBall(r, shape=(2, 2)),
        lambda r: Spectraplex(r, shape=2),
    ],
)
@pytest.mark.parametrize("radius", [-1.0, np.nan, np.inf, np.array([1.0, -1.0])])
def test_a_radius_is_finite_and_not_negative(make, radius):
    with pytest.raises(ValueError, match=r"radius is .*expected one number from 0"):
        make(radius)


def test_a_radius_is_a_number():
    with pytest.raises(TypeError, match=r"L2Ball: radius is 'ten'; expected one number"):
        L2Ball("ten")


REFUSED = {
    "box infinite": (lambda: Box(-np.inf, 1.0), r"Box: lower is -inf; expected finite.*choose one"),
    "box nan": (lambda: Box(0.0, {"a": np.array([1.0, np.nan])}), r"Box: upper is .*expected finite"),
    "box words": (lambda: Box("low", 1.0), r"Box: lower is 'low'; expected finite numbers"),
    "box swapped": (lambda: Box(1.0, 0.0), r"lower is above upper.*Perhaps they are swapped"),
    "box swapped somewhere": (lambda: Box(0.0, np.array([1.0, -1.0])), r"lower is above upper somewhere"),
    "box shapes": (
        lambda: Box(np.zeros(2), np.ones(3)),
        r"lower has the shape \(2,\) and upper \(3,\).*match the point",
    ),
    "box structure": (lambda: Box({"a": 0.0}, {"b": 1.0}), r"lower has the shape .*expected each"),
    "box shape": (lambda: Box(np.zeros(2), 1.0, shape=3), r"with shape=\(3,\); expected each"),
    "group dtype": (lambda: GroupBall(1.0, [0.5, 1.0]), r"dtype float64; expected a whole number"),
    "group size": (
        lambda: GroupBall(1.0, [0, 1], shape=3),
        r"2 labels for points with 3 coordinates; expected one label",
    ),
    "matrix without shape": (lambda: Spectraplex(), r"Spectraplex: shape is None; expected that of one matrix"),
    "matrix is a vector": (lambda: NuclearBall(1.0, shape=3), r"NuclearBall: shape is \(3,\); expected"),
    "matrix is a tree": (
        lambda: NuclearBall(1.0, shape={"a": (2, 2), "b": (2, 2)}),
        r"expected that of one matrix, e.g. shape=\(200, 300\)",
    ),
    "rounds": (lambda: NuclearBall(1.0, shape=(2, 2), rounds=0), r"rounds is 0; expected a whole number"),
    "not square": (lambda: Spectraplex(shape=(2, 3)), r"shape is \(2, 3\); expected a square"),
    "polytope empty": (lambda: Polytope([[1.0], [-1.0]], [0.0, -1.0]), r"is empty: no point.*check the signs"),
    "polytope zero row": (lambda: Polytope([[0.0], [1.0]], [-1.0, 1.0]), r"is empty: a row of zeros"),
    "polytope orthant": (lambda: Polytope(-np.eye(2), np.zeros(2)), r"is not bounded: balls of any size"),
    "polytope strip": (
        lambda: Polytope([[0.0, 1.0], [0.0, -1.0]], [1.0, 1.0]),
        r"is not bounded: coordinate 0 may go to infinity.*add rows",
    ),
    "polytope half strip": (
        lambda: Polytope([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]], [1.0, 1.0, 1.0]),
        r"is not bounded: coordinate 0 may go to -infinity",
    ),
    "polytope shapes": (
        lambda: Polytope(np.eye(2), [1.0]),
        r"A has the shape \(2, 2\) and b \(1,\); expected \(m, n\) and \(m,\)",
    ),
    "polytope infinite": (lambda: Polytope([[1.0], [-1.0]], [np.inf, 1.0]), r"Leave rows out"),
    "polytope columns": (
        lambda: Polytope(SQUARE, np.ones(4), shape=3),
        r"A has 2 columns for points with 3 coordinates; expected one column",
    ),
    "shape word": (lambda: L2Ball(1.0, shape="x"), r"Shape: 'x' was given; expected a whole number"),
    "shape negative": (lambda: Shape((2, -1)), r"Shape: \(2, -1\) was given; expected"),
    "shape fraction": (lambda: Shape({"w": 1.5}), r"Shape: {'w': 1.5} was given"),
    "shape empty": (lambda: Shape((0, 3)), r"has no coordinates; expected at least one"),
    "unknown start": (lambda: L2Ball(1.0).start(), r"L2Ball does not know the shape.*or pass x0"),
    "unknown diameter": (lambda: LinfBall(1.0).diameter, r"LinfBall does not know the shape"),
    "product structure": (
        lambda: Product((L2Ball(1.0), L2Ball(1.0))).project({"a": jnp.ones(2)}),
        r"Product: a point has the structure .*one piece for each set",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_sentence(name: str):
    make, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("sets", [{}, {"w": L2Ball(1.0), "b": 3.0}])
def test_a_product_has_sets_for_leaves(sets):
    with pytest.raises(TypeError, match=r"in the place of a set; expected a pytree whose leaves are sets"):
        Product(sets)


def test_missing_oracles_say_what_to_use():
    assert not Mute().has_projection
    assert not Mute().has_lmo
    with pytest.raises(MissingOracleError, match=r"Mute has no cheap projection.*fw-csoa"):
        Mute().project(jnp.zeros(1))
    with pytest.raises(MissingOracleError, match=r"Mute has no linear minimisation.*csoa"):
        Mute().lmo(jnp.zeros(1))


def test_a_polytope_says_how_to_ask_for_a_projection():
    polytope = Polytope(SQUARE, np.ones(4))
    assert not polytope.has_projection
    with pytest.raises(MissingOracleError, match=r"no cheap projection.*projection=True"):
        polytope.project(jnp.zeros(2))


def test_a_product_names_the_part_that_is_missing():
    product = Product({"w": L2Ball(1.0, shape=2), "p": (Polytope(SQUARE, np.ones(4)),)})
    assert product.has_lmo
    assert not product.has_projection
    x = {"w": jnp.ones(2), "p": (jnp.ones(2),)}
    with pytest.raises(MissingOracleError, match=r"no projection.*\['p'\]\[0\], Polytope, has none"):
        product.project(x)
    mute = Product((L2Ball(1.0), Mute()))
    assert not mute.has_lmo
    for ask in (mute.lmo, mute.support, lambda g: mute.warm_lmo(g, ((), ()))):
        with pytest.raises(MissingOracleError, match=r"no linear minimisation.*\[1\], Mute, has none"):
            ask((jnp.ones(1), jnp.ones(1)))


def test_shapes_of_products():
    assert Product((L2Ball(1.0, shape=3), L2Ball(1.0, shape=4))).shape == Shape(((3,), (4,)))
    assert Product((L2Ball(1.0, shape=3), L2Ball(1.0))).shape is None
    nested = Product({"a": Product((L2Ball(1.0, shape={"w": 2, "b": ()}),))})
    assert nested.shape == Shape({"a": ({"w": 2, "b": ()},)})
    assert nested.shape.size == 3


def test_shapes_are_equal_by_content():
    assert Shape(3) == Shape((3,)) == Shape(np.int64(3))
    assert hash(Shape({"w": 3})) == hash(Shape({"w": (3,)}))
    assert Shape((3, 4)) != Shape(((3,), (4,)))
    assert repr(Shape((3, 4))) == "(3, 4)"
    assert repr(Shape({"w": 3})) == "{'w': (3,)}"
