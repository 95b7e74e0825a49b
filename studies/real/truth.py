"""What a point is worth, in float64: means of the user's functions over all rows, and the reference they are compared with.

The functions are evaluated here as they were written, by JAX in float64 and by nothing of the library, so that what the
library says of its own result can be false.
"""

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cvxpy.error import SolverError
from jax.flatten_util import ravel_pytree

import tightrope as tr
from studies.real.peers import NotWritten, Scipy
from studies.real.task import Task

VIOLATED = 1e-9  # of the size of a constraint, above which it counts as violated: a tenth of what Clarabel leaves
NO_ROOM = 1e-6  # likewise where opposite inequalities leave no interior: what SLSQP leaves of an equality
_TIGHT = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}  # a hundredth of Clarabel's own; a guess
_SOLVERS: dict[str, dict[str, Any]] = {
    "HIGHS": {},
    "OSQP": {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iter": 200_000},
    "SCS": {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 100_000},
}
"""Who has a second look where there are kinks, with tolerances a tenth of Clarabel's; limits are guesses."""
_FEW = 50  # coordinates up to which SciPy's trust-constr, which takes minutes for more, is asked as well; a guess
FALSE = 1e-6  # of the scale of F: a lower bound further above F* is called false; references are good to this


class Truth:
    """Means of f and h and their derivatives at vectors, in float64."""

    def __init__(self, task: Task):
        self.problem, self.task = task.problem, task
        with jax.enable_x64(True):
            self.rows = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), task.rows)
            start = jax.tree.map(lambda a: np.asarray(a, float), task.problem.domain.start())
            flat, self.back = ravel_pytree(start)
            self.start: np.ndarray = np.asarray(flat)
            self._values = jax.jit(lambda v, rows: self._means(v, rows))
            self._slopes = jax.jit(lambda v, rows: jax.jacrev(lambda u: self._means(u, rows))(v))
            self._sizes = jax.jit(lambda v, rows: self._absolute(v, rows))
        self.levels = np.atleast_1d(np.asarray(task.problem.levels, float))
        self.N = len(self.values(self.start)[1])

    def _of_rows(self, v: Any, rows: Any) -> tuple[Any, Any]:
        """f and h (without levels) of each row."""
        x, h = self.back(v), self.problem.constraints
        f = jax.vmap(lambda row: self.problem.objective(x, row))(rows)  # pyright: ignore[reportOptionalCall]
        if h is None:
            return f, jnp.zeros((len(f), 0))
        if not hasattr(h, "inner"):
            return f, jax.vmap(lambda row: jnp.atleast_1d(h(x, row)))(rows)
        seen = jax.vmap(lambda row: h.inner(x, row))(rows)  # pyright: ignore[reportFunctionMemberAccess]
        u = jax.tree.map(lambda a: a.mean(axis=0), seen)
        return f, jax.vmap(lambda row: jnp.atleast_1d(h(x, row, inner=u)))(rows)

    def _means(self, v: Any, rows: Any) -> tuple[Any, Any]:
        f, h = self._of_rows(v, rows)
        return f.mean(), h.mean(axis=0) - jnp.asarray(self.problem.levels, jnp.float64)

    def _absolute(self, v: Any, rows: Any) -> Any:
        return jnp.abs(self._of_rows(v, rows)[1]).mean(axis=0)

    def values(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        """F and H - levels."""
        with jax.enable_x64(True):
            f, h = self._values(jnp.asarray(v, jnp.float64), self.rows)
        return float(f), np.asarray(h)

    def slopes(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The gradient of F and the Jacobian of H."""
        with jax.enable_x64(True):
            f, h = self._slopes(jnp.asarray(v, jnp.float64), self.rows)
        return np.asarray(f), np.asarray(h)

    def point(self, v: np.ndarray) -> Any:
        """A vector as a point of the user's."""
        with jax.enable_x64(True):
            return self.back(jnp.asarray(v, jnp.float64))

    def flat(self, x: Any) -> np.ndarray:
        """A point of the user's as a vector."""
        with jax.enable_x64(True):
            return np.asarray(ravel_pytree(jax.tree.map(lambda a: np.asarray(a, float), x))[0])

    def sizes(self, v: np.ndarray) -> np.ndarray:
        """How large each constraint is: the most of its level, the mean of |h|, and what single coordinates add to it."""
        with jax.enable_x64(True):
            mean = np.asarray(self._sizes(jnp.asarray(v, jnp.float64), self.rows))
        slopes = self.slopes(v)[1]
        parts = [np.broadcast_to(np.abs(self.levels), mean.shape), mean, np.abs(slopes * v).sum(axis=1)]
        size = np.max(np.stack(parts), axis=0) if self.N else mean
        size = np.where(size > 1e-12, size, np.abs(slopes).sum(axis=1) * np.max(np.abs(v), initial=0.0))
        return np.where(size > 1e-12, size, 1.0)

    def violation(self, v: np.ndarray, sizes: np.ndarray) -> float:
        """The largest H_i above zero, relative to its size."""
        return float(np.max(np.maximum(self.values(v)[1], 0.0) / sizes, initial=0.0))

    def inside(self, v: np.ndarray, tol: float = VIOLATED) -> bool:
        """Whether a point is in the domain, up to tol of its size."""
        with jax.enable_x64(True):
            return bool(self.problem.domain.contains(self.back(jnp.asarray(v, jnp.float64)), tol))


@dataclasses.dataclass(frozen=True)
class Reference:
    """The best value of a problem, and why it is believed."""

    optimum: float
    x: list[float]
    start: float  # F where a run begins
    scale: float  # max(|F*|, F(start) - F*)
    sizes: list[float]  # of the constraints
    by: str  # who found it
    off: float  # how far F at its point is from what the solver says that F* is, relative to the scale
    violation: float  # of its point
    second: str  # who had a second look
    better: float  # by how much the second found a lower value, relative to the scale; below zero, a higher one

    @property
    def sound(self) -> str:
        """What is wrong with it; empty where nothing is."""
        wrong = []
        if not self.off <= FALSE:
            wrong.append(f"its solver's value is off by {self.off:.1g}")
        if not self.violation <= 1e-7:
            wrong.append(f"its point violates by {self.violation:.1g}")
        if self.better > FALSE:
            wrong.append(f"{self.second} finds a value that is lower by {self.better:.1g}")
        if self.better < -1e-5:
            wrong.append(f"{self.second} comes no nearer than {-self.better:.1g}")
        return "; ".join(wrong)


def reference(task: Task, truth: Truth, second: bool = True) -> Reference:
    """F* by cvxpy or by what the task brings along, and a second opinion."""
    by, x, said = _first(task, truth)
    F, _ = truth.values(x)
    start = truth.values(truth.start)[0]
    fall = start - F if np.isfinite(start) else 0.0
    scale = max(abs(F), fall) or 1.0
    sizes = truth.sizes(x)
    opinion, other = _second(task, truth, x, scale, sizes) if second else ("nobody", F)
    off = 0.0 if said is None else abs(said - F) / scale
    return Reference(
        F, x.tolist(), start, scale, sizes.tolist(), by, off, truth.violation(x, sizes), opinion, (F - other) / scale
    )


def _first(task: Task, truth: Truth) -> tuple[str, np.ndarray, float | None]:
    if task.solution is not None:
        return "closed form or Newton", truth.flat(task.solution()), None
    assert task.programme is not None
    programme = task.programme()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for solver, options in (("CLARABEL", _TIGHT), ("CLARABEL", {}), ("SCS", _SOLVERS["SCS"])):
            try:
                programme.problem.solve(solver=solver, **options)
            except SolverError:
                continue
            if programme.problem.status == "optimal":
                break
    return f"cvxpy ({programme.problem.status})", truth.flat(programme.x()), programme.value


def _second(task: Task, truth: Truth, x: np.ndarray, scale: float, sizes: np.ndarray) -> tuple[str, float]:
    """The value that SciPy finds with exact derivatives, or, where there are kinks, another solver of cvxpy's."""
    if task.smooth:
        found = []
        for name in ("SLSQP", "trust-constr") if len(x) <= _FEW else ("SLSQP",):
            try:
                v = Scipy(truth).solve(name, units=np.maximum(np.abs(x), 1e-3 * np.max(np.abs(x), initial=1e-9)))
            except (NotWritten, ValueError, FloatingPointError, np.linalg.LinAlgError):
                continue
            allowed = NO_ROOM
            if truth.violation(v, sizes) <= allowed and truth.inside(v, 1e-6):
                found.append((truth.values(v)[0], name))
                if abs(found[-1][0] - truth.values(x)[0]) <= 1e-6 * scale:
                    break
        if found:
            return min(found)[1], min(found)[0]
    if task.programme is None:
        return "nobody", truth.values(x)[0]
    best = "nobody", np.inf
    for solver, options in _SOLVERS.items():
        programme = task.programme()
        if solver == "HIGHS" and not programme.problem.is_lp():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                programme.problem.solve(solver=solver, **options)
            except (SolverError, ValueError):
                continue
        if programme.problem.status == "optimal":
            F = truth.values(truth.flat(programme.x()))[0]
            best = min(best, (solver, F), key=lambda pair: abs(pair[1] - truth.values(x)[0]))
    return best if best[1] < np.inf else ("nobody", truth.values(x)[0])


def known(path: Path, task: Task, truth: Truth) -> Reference:
    """A reference from its file, where `--references` has written it; else made anew, without a second opinion."""
    return Reference(**json.loads(path.read_text())) if path.exists() else reference(task, truth, second=False)


def judged(truth: Truth, ref: Reference, result: tr.Result, room: bool) -> dict[str, Any]:
    """What a result is worth, and whether it says the truth about itself."""
    v = truth.flat(result.x)
    if not np.all(np.isfinite(v)):
        return {"gap": float("nan"), "violation": float("inf"), "violated": True, "false": False}
    F, sizes = truth.values(v)[0], np.asarray(ref.sizes)
    violation, allowed = truth.violation(v, sizes), VIOLATED if room else NO_ROOM
    inside = truth.inside(v)
    true = (F - ref.optimum) / ref.scale
    lower, gap = result.lower, result.gap
    high = None if lower is None else (lower - ref.optimum) / ref.scale
    false = (high is not None and high > FALSE) or (gap is not None and gap / ref.scale < true - FALSE)
    return {
        "gap": true,
        "violation": violation,
        "inside": inside,
        "violated": violation > allowed or not inside,
        "said gap": None if gap is None else gap / ref.scale,
        "lower above": high,
        "false": bool(false),
    }
