"""Polytopes given by inequalities.

Linear and least-distance programming are SciPy's, on the host; it is loaded when the first polytope is made.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import MissingOracleError, numbers
from tightrope._limits import MOST_LENGTH
from tightrope.sets import conic
from tightrope.sets.base import Shape, as_shape, no_projection, rounding
from tightrope.sets.box import Box
from tightrope.sets.capabilities import ConvexSet
from tightrope.tree import Array, Tree, pytree, ravel, set_field, static

SOLVER_TOLERANCE = 1e-6  # of a polytope's size; derived: HiGHS accepts a row that is broken by 1e-7 of it


class Rows:
    """The polytope's inequalities with rows of unit length, its centre and the diagonal of its bounding box.

    All on the host and in float64: in a float32 run the solvers must not see rounded rows, which may have no
    point in common any more. Equal rows are equal as static data, so an equal polytope compiles nothing new.
    """

    def __init__(self, A: np.ndarray, b: np.ndarray):
        length = np.linalg.norm(A, axis=1)
        if np.any(b[length == 0] < 0):
            raise ValueError(_empty("a row of zeros has a negative right-hand side"))
        keep = length > 0
        self.A = A[keep] / length[keep, None]
        self.b = b[keep] / length[keep]
        self.centre = self._chebyshev_centre()
        self.lower, self.upper = self._bounding_box()
        if max(np.max(np.abs(side)) for side in (self.lower, self.upper)) > MOST_LENGTH:
            raise ValueError(_unbounded(f"it has points with coordinates beyond {MOST_LENGTH:g}"))
        self.diagonal = float(np.linalg.norm(self.upper - self.lower))
        self._key = (self.A.shape, self.A.tobytes(), self.b.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def _chebyshev_centre(self) -> np.ndarray:
        """The centre of a largest inscribed ball: maximise r with <a_i, x> + r <= b_i."""
        n, unit = self.A.shape[1], np.max(np.abs(self.b), initial=0.0) or 1.0
        rows = np.hstack([self.A, np.ones((len(self.A), 1))])
        bounds = [(None, None)] * n + [(0, None)]
        answer = _linear_programme(-np.eye(n + 1)[n], rows, self.b / unit, bounds)
        if answer.status == 2:
            raise ValueError(_empty("no point satisfies all rows"))
        if answer.status == 3:
            raise ValueError(_unbounded("balls of any size fit into it"))
        _refuse_failure(answer)
        return unit * answer.x[:n]

    def _bounding_box(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounding box, whose sides are found by two linear programmes for each coordinate."""
        n = self.A.shape[1]
        slack = self.b - self.A @ self.centre
        unit = np.max(np.abs(slack), initial=0.0) or 1.0
        sides = np.zeros((n, 2))
        for j in range(n):
            for k, sign in enumerate((1.0, -1.0)):
                answer = _linear_programme(-sign * np.eye(n)[j], self.A, slack / unit)
                if answer.status == 3:
                    raise ValueError(_unbounded(f"coordinate {j} may go to {'-' * k}infinity"))
                _refuse_failure(answer)
                sides[j, k] = answer.x[j]
        return self.centre + unit * sides[:, 1], self.centre + unit * sides[:, 0]

    def minimise(self, g: Any) -> np.ndarray:
        """A vertex that minimises <g, v>, by linear programming around the centre in units of the size."""
        g = np.asarray(g)
        direction = g.astype(np.float64)
        size = np.max(np.abs(direction))
        if not np.isfinite(size):
            return np.full_like(g, np.nan)
        if self.diagonal == 0:
            return self.centre.astype(g.dtype)
        slack = (self.b - self.A @ self.centre) / self.diagonal
        answer = _linear_programme(direction / (size or 1.0), self.A, slack)
        if answer.status != 0:  # exceptions do not pass through compiled code; the loop reports a NaN
            return np.full_like(g, np.nan)
        return (self.centre + self.diagonal * answer.x).astype(g.dtype)

    def nearest(self, x: Any) -> np.ndarray:
        """The projection of x, by Lawson and Hanson's least-distance programming.

        The shortest z with <a_i, z> <= b_i - <a_i, x> is -r_{1..n} / r_{n+1}, where r is the residual of
        min |[-A'; h'] u - e_{n+1}| over u >= 0 and h = A x - b.
        """
        from scipy.optimize import nnls

        x = np.asarray(x)
        point = x.astype(np.float64)
        broken = self.A @ point - self.b
        if not np.all(np.isfinite(broken)):
            return np.full_like(x, np.nan)
        worst = np.max(broken, initial=0.0)
        if worst <= 0:
            return x
        target = np.zeros(len(point) + 1)
        target[-1] = 1.0
        system = np.vstack([-self.A.T, broken / worst])
        try:
            u, _ = nnls(system, target, maxiter=100 * len(self.A))
        except RuntimeError:  # too many iterations; the loop reports a NaN
            return np.full_like(x, np.nan)
        residual = system @ u - target
        return (point - worst * residual[:-1] / residual[-1]).astype(x.dtype)


def _linear_programme(cost: np.ndarray, A: np.ndarray, b: np.ndarray, bounds: Any = (None, None)) -> Any:
    """Minimise <cost, x> subject to A x <= b and the bounds."""
    from scipy.optimize import linprog

    return linprog(cost, A, b, bounds=bounds)


def _empty(reason: str) -> str:
    return f"Polytope: {{x: A x <= b}} is empty: {reason}. Expected a point; check the signs of A and b."


def _unbounded(reason: str) -> str:
    return (
        f"Polytope: {{x: A x <= b}} is not bounded: {reason}. The methods need a bounded set; add rows "
        "such as x_j <= u and -x_j <= -l."
    )


def _refuse_failure(answer: Any) -> None:
    if answer.status != 0:
        raise RuntimeError(f"Polytope: linear programming over {{x: A x <= b}} failed: {answer.message}")


def _checked_rows(A: Any, b: Any) -> Rows:
    A = numbers("Polytope", "A", A, "expected rows of finite numbers. Leave rows out that say nothing.")
    b = numbers("Polytope", "b", b, "expected a finite number for each row of A. Leave rows out that say nothing.")
    if A.ndim != 2 or b.shape != A.shape[:1] or A.size == 0:
        raise ValueError(
            f"Polytope: A has the shape {A.shape} and b {b.shape}; expected (m, n) and (m,), a row and a "
            "number for each inequality."
        )
    return Rows(A, b)


@pytree
class Polytope(ConvexSet):
    """Polytope: all x with A x <= b, row by row.

    Its LMO is a linear program, solved on the host at every call. The rows are compiled in.

    Args:
        A: one row per inequality.
        b: the right-hand sides.
        projection: whether to offer the projection too, a nonnegative least-squares problem at every call.
        shape: the shape of a point; a vector with one coordinate per column of A unless given.

    Example:
        >>> import jax.numpy as jnp
        >>> from tightrope.sets import Polytope
        >>> triangle = Polytope(A=[[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], b=[0.0, 0.0, 4.0])
        >>> [round(v) for v in triangle.lmo(jnp.array([-1.0, 2.0])).tolist()]
        [4, 0]

    References:
        Lawson and Hanson, Solving Least Squares Problems (1974), chapter 23.
    """

    A: dataclasses.InitVar[Any]
    b: dataclasses.InitVar[Any]
    projection: bool = static(default=False)
    shape: Any = static(default=None)
    rows: Rows = dataclasses.field(init=False, metadata={"static": True})

    def __post_init__(self, A: Any, b: Any) -> None:
        set_field(self, "rows", _checked_rows(A, b))
        n = self.rows.A.shape[1]
        set_field(self, "shape", as_shape(self.shape) or Shape(n))
        if self._shape().size != n:
            raise ValueError(
                f"Polytope: A has {n} columns for points with {self._shape().size} coordinates; expected "
                "one column per coordinate."
            )

    @property
    def has_projection(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether a projection was asked for when the polytope was made."""
        return self.projection

    @property
    def diameter(self) -> float:
        """The diagonal of the bounding box."""
        return self.rows.diagonal

    def contains(self, x: Tree, tol: float | None = None) -> Array:
        """Whether no row is broken by more than tol times the polytope's size and distance from zero."""
        v, _ = ravel(x)
        size = np.linalg.norm(self.rows.centre) + self.rows.diagonal
        slack = max(rounding(x, None), SOLVER_TOLERANCE) if tol is None else tol
        broken = jnp.asarray(self.rows.A, v.dtype) @ v - jnp.asarray(self.rows.b, v.dtype)
        return jnp.all(broken <= slack * size)

    def start(self, dtype: Any = None) -> Tree:
        """The Chebyshev centre: the centre of a largest ball inside."""
        return self._shape().unravel(jnp.asarray(self.rows.centre, dtype or jnp.result_type(float)))

    def enclosing(self) -> Box:
        """The bounding box."""
        with (
            jax.ensure_compile_time_eval()
        ):  # the rows are known, so that the box can be checked while a step is traced
            lower, upper = (self._shape().unravel(jnp.asarray(side)) for side in (self.rows.lower, self.rows.upper))
            return Box(lower, upper, self.shape)

    def conic(self, x: Tree) -> conic.Conic:
        """The rows as they are."""
        rows = self.rows
        return conic.Conic.of([("nonnegative", rows.A, rows.b)], rows.lower, rows.upper)

    def lmo(self, g: Tree) -> Tree:
        """A vertex that minimises <g, v>, by linear programming on the host."""
        return self._on_host(self.rows.minimise, g)

    def project(self, x: Tree) -> Tree:
        """The nearest point, by nonnegative least squares; only with `projection=True`."""
        if not self.projection:
            raise MissingOracleError(
                f"{no_projection(self.name)} Or ask for one, if solving a nonnegative least-squares problem "
                "at every step is cheap enough: Polytope(A, b, projection=True)."
            )
        return self._on_host(self.rows.nearest, x)

    def _on_host(self, solve: Any, x: Tree) -> Tree:
        v, back = ravel(x)
        return back(jax.pure_callback(solve, jax.ShapeDtypeStruct(v.shape, v.dtype), v, vmap_method="sequential"))
