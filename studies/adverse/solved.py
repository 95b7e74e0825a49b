"""Attacks on what a run on rows says at its end: the gap, the constraints on these rows, that no point is feasible.

Two families of laws. Functions that are convex and lose digits: differences of large squares, features near 3,000 that were
not scaled, logarithms of unshifted exponentials, in tiny and large units, in float32 and float64. And functions that are
convex or not, as a random coefficient has it. The truth is computed in extended precision; a better point than a lower bound
allows, or a feasible one of an infeasible problem, is looked for by SLSQP from many starts.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize as slsqp

import tightrope as tr
from studies.adverse.search import Promise

D = 3  # coordinates
SLACK = 1e-6  # of the largest of |F|, |H| and 1 near the solution: what SLSQP and the rounding of levels are allowed


class Law(NamedTuple):
    """A problem in y = x/unit; every sample is a row t and a target b."""

    f: str
    h: str
    shift: float  # where rows lie
    unit: float  # of x
    scale: float  # of f
    strength: float  # of what is not convex, or of the exponentials
    room: float  # of the level above the least possible
    n: int
    double: bool
    method: str


# ---- functions of one sample; p holds the numbers of the law, so that nothing is compiled twice -------------------------


def _y(x, p):
    return x / p["unit"]


def _expanded(y, t, b, p):
    z = p["shift"] + y
    return (z @ z - 2 * (z @ t) + t @ t) / 2


def _linear(y, t, b, p):
    return jnp.asarray([1.0, 2.0, -1.0]) @ y


def _fit(y, t, b, p):
    return (t @ y - b) ** 2 / 2


def _soft(y, t, b, p):
    m = p["strength"] * (t @ y - p["shift"] * jnp.sum(y))
    return jnp.log(1 + jnp.exp(m))


def _difference(y, t, b, p):
    z = p["shift"] + y
    both = (z + t) @ (z + t) - (z - t) @ (z - t)
    return (both / 4 - p["shift"] * jnp.sum(t)) / (1 + p["shift"])


def _concave(y, t, b, p):
    return _linear(y, t, b, p) + (0.2 - p["strength"]) * (y @ y) / 2


def _wavy(y, t, b, p):
    return ((y - t) @ (y - t)) / 2 + p["strength"] * jnp.sin(6 * y[0])


def _product(y, t, b, p):
    return (y @ y) / 2 + 2 * p["strength"] * y[0] * y[1] + t[2] * y[2]


def _well(y, t, b, p):
    return (y[0] ** 2 - p["strength"]) ** 2 + (y[1:] @ y[1:]) / 2 + 0.3 * y[0] + t[1] * y[1] / 10


def _net(y, t, b, p):
    return (jnp.tanh(y[0] * t[0] + y[1] * t[1]) * y[2] * p["strength"] - jnp.tanh(t[0] - t[1])) ** 2


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "expanded": _expanded,
    "linear": _linear,
    "fit": _fit,
    "soft": _soft,
    "difference": _difference,
    "concave": _concave,
    "wavy": _wavy,
    "product": _product,
    "well": _well,
    "net": _net,
}


@dataclasses.dataclass(frozen=True)
class Objective:
    """f of one sample, by its name."""

    name: str

    def __call__(self, x, theta, p):
        return p["scale"] * FUNCTIONS[self.name](_y(x, p), theta["t"], theta["b"], p)


@dataclasses.dataclass(frozen=True)
class Constraint:
    """h of one sample, by its name."""

    name: str

    def __call__(self, x, theta, p):
        return FUNCTIONS[self.name](_y(x, p), theta["t"], theta["b"], p)[None]


# ---- the same over all rows in extended precision, with slopes ---------------------------------------------------------


class Exact:
    """Mean and slope in y of one function over these rows."""

    def __init__(self, name: str, law: Law, t: np.ndarray, b: np.ndarray):
        self.name, self.law = name, law
        self.t, self.b = t.astype(np.longdouble), b.astype(np.longdouble)
        self.moved = self.t - np.longdouble(law.shift)

    def __call__(self, y: np.ndarray) -> tuple[float, np.ndarray]:
        y, a = np.asarray(y, np.longdouble), self.law.strength
        value, slope = getattr(self, self.name)(y, a)
        return float(np.mean(value)), np.asarray(slope, float)

    def expanded(self, y, a):
        away = y - self.moved
        return (away**2).sum(axis=1) / 2, away.mean(axis=0)

    def linear(self, y, a):
        c = np.array([1.0, 2.0, -1.0])
        return c @ y, c

    def fit(self, y, a):
        r = self.t @ y - self.b
        return r**2 / 2, (r[:, None] * self.t).mean(axis=0)

    def soft(self, y, a):
        m = a * (self.moved @ y)
        return np.logaddexp(0, m), (a * self.moved / (1 + np.exp(-m))[:, None]).mean(axis=0)

    def difference(self, y, a):
        return self.t @ y / (1 + self.law.shift), self.t.mean(axis=0) / (1 + self.law.shift)

    def concave(self, y, a):
        value, c = self.linear(y, a)
        return value + (0.2 - a) * (y @ y) / 2, c + (0.2 - a) * y

    def wavy(self, y, a):
        away = y - self.t
        slope = away.mean(axis=0)
        slope[0] += 6 * a * np.cos(6 * y[0])
        return (away**2).sum(axis=1) / 2 + a * np.sin(6 * y[0]), slope

    def product(self, y, a):
        slope = y + 2 * a * np.array([y[1], y[0], 0]) + np.array([0, 0, 1]) * self.t[:, 2].mean()
        return (y @ y) / 2 + 2 * a * y[0] * y[1] + self.t[:, 2] * y[2], slope

    def well(self, y, a):
        slope = y + np.array([4 * (y[0] ** 2 - a) * y[0] + 0.3 - y[0], self.t[:, 1].mean() / 10, 0])
        return (y[0] ** 2 - a) ** 2 + (y[1:] @ y[1:]) / 2 + 0.3 * y[0] + self.t[:, 1] * y[1] / 10, slope

    def net(self, y, a):
        m = np.tanh(y[0] * self.t[:, 0] + y[1] * self.t[:, 1])
        r = m * y[2] * a - np.tanh(self.t[:, 0] - self.t[:, 1])
        inner = (2 * r * y[2] * a * (1 - m**2))[:, None] * self.t[:, :2]
        return r**2, np.append(inner.mean(axis=0), (2 * r * m * a).mean())


def solved(f: Exact | None, h: Exact, level: float, starts: np.ndarray) -> np.ndarray | None:
    """The best feasible point in the ball that SLSQP finds; without f, of the least h."""
    ball = {"type": "ineq", "fun": lambda y: 4 - y @ y, "jac": lambda y: -2 * y}
    below = {"type": "ineq", "fun": lambda y: level - h(y)[0], "jac": lambda y: -h(y)[1]}
    goal, rules = (h, [ball]) if f is None else (f, [ball, below])
    scale = 1 + max(abs(goal(y)[0]) for y in starts)
    best, value = None, np.inf
    for y in starts:
        with np.errstate(all="ignore"):
            found = slsqp(
                lambda y: goal(y)[0] / scale, y, jac=lambda y: goal(y)[1] / scale, constraints=rules, method="SLSQP",
                options={"ftol": 1e-14, "maxiter": 200},
            )  # fmt: skip
        y = found.x / max(1.0, np.linalg.norm(found.x) / 2)
        if np.all(np.isfinite(y)) and goal(y)[0] < value and (f is None or h(y)[0] <= level):
            best, value = y, goal(y)[0]
    return best


def attempt(law: Law, rng: np.random.Generator) -> bool | None:
    """None where the run claims nothing; whether what it claims is false."""
    dtype = np.float64 if law.double else np.float32
    t = (law.shift + 0.5 * rng.normal(size=D) + rng.normal(size=(law.n, D))).astype(dtype)
    b = (t.astype(float) @ (rng.normal(size=D) / 2) + rng.normal(size=law.n)).astype(dtype)
    p = {name: dtype(getattr(law, name)) for name in ("shift", "unit", "scale", "strength")}
    exact = law._replace(**{name: float(v) for name, v in p.items()})
    f, h = Exact(law.f, exact, t, b), Exact(law.h, exact, t, b)
    starts = np.vstack([np.zeros((1, D)), 1.1 * rng.normal(size=(11, D))])
    deepest = solved(None, h, 0.0, starts)
    if deepest is None:
        return None
    least = h(deepest)[0]
    level = least + law.room * (np.max([h(y)[0] for y in starts]) - least)
    problem = tr.Problem(
        Objective(law.f), Constraint(law.h), tr.L2Ball(2.0 * exact.unit, shape=D), levels=level, params=p
    )
    with jax.enable_x64(law.double):
        result = tr.minimize(problem, {"t": t, "b": b}, method=law.method, record=0, progress=False)
    y = np.asarray(result.x, np.longdouble) / np.longdouble(exact.unit)
    size = max(1.0, abs(level), abs(least))
    best = solved(f, h, level, np.vstack([starts, np.asarray(y, float)[None], deepest[None]]))
    if result.status is tr.Status.INFEASIBLE:
        return best is not None and h(best)[0] <= level - SLACK * size
    if result.lower is None and not result.status.proven:
        return None
    if result.status.proven and h(y)[0] > level + 1e-9 * size:
        return True
    if best is None:
        return False
    value, found = exact.scale * f(y)[0], exact.scale * f(best)[0]
    spare = SLACK * max(abs(value), abs(found), exact.scale)
    if result.lower is not None and found < result.lower - spare:
        return True
    return result.status.proven and result.gap is not None and value - found > result.gap + spare


def digits(rng: np.random.Generator) -> Law:
    """Convex functions that lose digits."""
    room = float(rng.choice([-0.05, 0.003, 0.03, 0.3]))
    shares = [0.5, 0.3, 0.2] if room > 0 else [0.5, 0.5, 0.0]  # SVRG-CSOA proves no infeasibility, and looks for long
    return Law(
        f=str(rng.choice(["linear", "expanded", "fit", "soft"])),
        h=str(rng.choice(["expanded", "fit", "difference", "soft"])),
        shift=float(np.round(10 ** rng.uniform(0, np.log10(3000)))),
        unit=float(10.0 ** rng.integers(-4, 5)),
        scale=float(10.0 ** rng.integers(-4, 5)),
        strength=float(rng.uniform(0.5, 3)),
        room=room,
        n=int(rng.choice([200, 2000])),
        double=bool(rng.uniform() < 0.2),
        method=str(rng.choice(["auto", "bundle", "svrg-csoa"], p=shares)),
    )


def shapes(rng: np.random.Generator) -> Law:
    """Functions that may not be convex."""
    bent = ["concave", "wavy", "product", "well", "net"]
    swapped = rng.uniform() < 0.3
    f, h = str(rng.choice(bent)), str(rng.choice(["linear", "expanded", "soft"]))
    return Law(
        f="linear" if swapped else f,
        h=f if swapped else h,
        shift=0.0,
        unit=1.0,
        scale=1.0,
        strength=float(10 ** rng.uniform(-2, 0.3)),
        room=float(rng.choice([0.03, 0.3, 0.7])),
        n=int(rng.choice([200, 2000])),
        double=bool(rng.uniform() < 0.3),
        method=str(rng.choice(["auto", "bundle", "svrg-csoa"], p=[0.4, 0.4, 0.2])),
    )


PROMISES = (
    Promise(
        name="solved-digits",
        said="solved: gap and constraints on these rows are as said; infeasible (functions that lose digits)",
        draw=digits,
        attempt=attempt,
        repetitions=200,
        again=20,
    ),
    Promise(
        name="solved-shapes",
        said="solved: gap and constraints on these rows are as said (functions that may not be convex)",
        draw=shapes,
        attempt=attempt,
        repetitions=200,
        again=20,
    ),
)
