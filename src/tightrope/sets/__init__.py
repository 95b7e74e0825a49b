"""Convex sets: what a method may ask of the domain X.

A user makes the sets in `SETS`. `LowRank` is a matrix held as a product of thin ones: a point of the factored ball in
`low_rank.py`, which structured completion makes. A set of your own is a subclass of `ConvexSet` (docs/new_set.md).
"""

from tightrope.sets.ball import L2Ball
from tightrope.sets.base import Shape
from tightrope.sets.box import Box
from tightrope.sets.capabilities import ConvexSet
from tightrope.sets.low_rank import LowRank, LowRankBall
from tightrope.sets.matrix import NuclearBall, Spectraplex
from tightrope.sets.polytope import Polytope
from tightrope.sets.product import Product
from tightrope.sets.vector import GroupBall, L1Ball, LinfBall, Simplex

SETS: dict[str, type[ConvexSet]] = {
    s.__name__: s
    for s in (Box, GroupBall, L1Ball, L2Ball, LinfBall, NuclearBall, Polytope, Product, Simplex, Spectraplex)
}
"""The sets by name; the tests of the contract go through all of them."""

__all__ = [
    "SETS",
    "Box",
    "ConvexSet",
    "GroupBall",
    "L1Ball",
    "L2Ball",
    "LinfBall",
    "LowRank",
    "LowRankBall",
    "NuclearBall",
    "Polytope",
    "Product",
    "Shape",
    "Simplex",
    "Spectraplex",
]
