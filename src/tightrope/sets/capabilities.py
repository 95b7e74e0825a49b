"""What a set may be able to do beyond its kernel: each capability is a class with its default.

A set is a `ConvexSet`, which is the kernel with all of these. One that says nothing of a capability has the default, or
refuses in a sentence; methods ask beforehand (`has_conic`), so that the refusal names what to use instead.
"""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tightrope._errors import MissingOracleError
from tightrope.sets.base import Kernel
from tightrope.sets.conic import Conic
from tightrope.sets.metric import Metric
from tightrope.tree import Array, Tree, float_dtype, subtract


class Oracles(Kernel):
    """Which of `project` and `lmo` a set has; by default those that it defines."""

    has_projection: bool = False  # whether `project` is there to be used
    cheap_projection: bool = False  # whether a projection method is the natural choice: by default where there is a
    # projection; not where that decomposes a matrix at every step
    has_lmo: bool = False  # whether `lmo` is there to be used


class Scales(Kernel):
    """Lengths in which coordinates are alike; by default the diameter, for all of them."""

    def widths(self, x: Tree) -> Tree:
        """A scale for each coordinate of x, or one for all of a leaf: the diameter, unless coordinates move on their own.

        A step that is scaled by them and projected is a projected step in the coordinates x/w.
        """
        return jax.tree.map(lambda v: jnp.asarray(self.diameter, float_dtype(v)), x)

    @property
    def scaled_diameter(self) -> Any:
        """The diameter in the coordinates x/w, with w the widths."""
        return 1.0


class OtherMetrics(Kernel):
    """Nearest points in other lengths than Euclid's; by default there are none."""

    has_metrics: bool = False  # whether `project_in` is there to be used

    def project_in(self, metric: Metric, x: Tree) -> Tree:
        """The nearest point of the set in a metric."""
        raise MissingOracleError(f"{self.name} has no projection in other metrics than Euclid's.")


class Enclosed(Kernel):
    """A set around this one with a cheap projection; by default a ball around the starting point."""

    def enclosing(self) -> "ConvexSet":
        """A set around this one with a cheap projection: the smallest ball or box that is known in closed form.

        Where nothing better is known, a ball around the starting point whose radius is the diameter. A ball or a box is its
        own: it returns itself, and so says that no other set is needed around it.
        """
        from tightrope.sets.ball import BallAround  # a set itself, so that it cannot be imported above

        return BallAround(self.start(), self.diameter)

    def tied(self, x: Tree) -> Tree:
        """For every leaf of x, whether the enclosing set is another one there, so that a point of it has to be tied to X."""
        another = self.enclosing() is not self
        return jax.tree.map(lambda _: another, x)


class RemembersVertices(Kernel):
    """Linear minimisations that start from the last one; by default there is nothing to remember, as for a closed form."""

    def lmo_memory(self, dtype: Any = None) -> Tree:
        """What `warm_lmo` remembers between calls."""
        return ()

    def warm_lmo(self, g: Tree, memory: Tree) -> tuple[Tree, Tree]:
        """`lmo(g)` started from the memory of the last call, and the new memory."""
        return self.lmo(g), memory

    def lmo_record(self, memory: Tree) -> dict[str, Array]:
        """What the trace of a run says of its last linear minimisation."""
        return {}


class WrittenDown(Kernel):
    """The set as linear maps and simple cones, for solvers; by default it is not written down."""

    has_conic: bool = False  # whether `conic` is there to be used

    def conic(self, x: Tree) -> Conic:
        """The set written down for a solver, as one of vectors with as many coordinates as x has."""
        raise MissingOracleError(f"{self.name} has no description by linear maps and simple cones.")


class MadeOfPoints(Kernel):
    """How points are mixed; by default they are vectors."""

    additive: bool = (
        True  # whether points are vectors, so that sums and means of them are taken leaf by leaf; not where
    )
    # they are factored. A set that says no gives its own `between` and `mix`

    def between(self, x: Tree, s: Tree) -> Tree:
        """The direction s - x."""
        return subtract(s, x)

    def mix(self, x: Tree, s: Tree, a: Any) -> Tree:
        """The point (1 - a) x + a s, between x and s where a is between 0 and 1."""
        return jax.tree.map(lambda p, q: ((1 - a) * p + a * q).astype(p.dtype), x, s)


class Corrects(Kernel):
    """Better points among those made of x and a vertex; by default a set does not know what its points are made of."""

    has_corrective: bool = False  # whether `corrective` is there to be used

    def corrective(self, x: Tree, s: Tree, g: Tree, line: Callable[[Tree], Array]) -> Tree:
        """A better point among those made of x and the vertex s, for sets that know what x is made of.

        g is the gradient at x, and `line(d)` the step length that minimises the objective along d from x.
        """
        raise MissingOracleError(f"{self.name} does not know what its points are made of; it has no corrective step.")


class ConvexSet(Oracles, Scales, OtherMetrics, Enclosed, RemembersVertices, WrittenDown, MadeOfPoints, Corrects):
    """A convex compact set X.

    To write your own, decorate a subclass with `tightrope.pytree` and give it `lmo` or `project` (or both),
    `diameter`, `contains` and `start`. Numbers are leaves; declare with `static()` what changes the program.

    Example:
        >>> import jax.numpy as jnp, tightrope as tr
        >>> box = tr.Box(0.0, 1.0, shape=2)
        >>> box.project(jnp.array([2.0, 0.5])).tolist(), box.lmo(jnp.array([1.0, -1.0])).tolist()
        ([1.0, 0.5], [0.0, 1.0])
        >>> box.has_projection, bool(box.contains(jnp.array([2.0, 0.5])))
        (True, False)
    """

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        for flag, able in _ABLE.items():
            has = getattr(cls, able) is not getattr(ConvexSet, able)
            if flag not in own and (able in own or (has and not inspect.getattr_static(cls, flag))):
                setattr(cls, flag, has)
        if "has_projection" in own and "cheap_projection" not in own:
            cls.cheap_projection = own["has_projection"]


_ABLE = {
    "has_projection": "project",
    "has_lmo": "lmo",
    "has_metrics": "project_in",
    "has_conic": "conic",
    "has_corrective": "corrective",
}  # what a set has that defines it, unless it says otherwise
