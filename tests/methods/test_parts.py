"""What the parts of methods give on random input: programmes, cuts, curvature, scales. Numbers kept in test_parts.json.

They are not right because they stand there: other tests hold these parts against what they must satisfy. Here no constant,
sign, cap or default changes unless somebody means it. `PYTHONPATH=src:tests python tests/methods/test_parts.py` writes them
anew. Of many inputs one sum is kept for each number, in which every input has a weight of its own.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stored
from test_paths import BOX, PARTS, PLAIN, QUICKLY, TREE, WithoutLMO, declared, samples

import tightrope as tr
from tightrope.methods import base, curvature, measured, merit, snapshot
from tightrope.methods.bundle import look, model
from tightrope.methods.bundle.model import Looks, Model, Units, best_combination
from tightrope.methods.bundle.solve import one_thread, region_of, solve
from tightrope.methods.bundle.state import BundleState, Kept, proven
from tightrope.methods.second_order import look as turns
from tightrope.methods.second_order import quadratic
from tightrope.methods.second_order.quadratic import Ball, Inconsistent, best_step
from tightrope.problem.full_data import Some
from tightrope.sets import conic
from tightrope.tree import replace

TABLE = Path(__file__).with_suffix(".json")


def mixed(results: Iterable[Any]) -> dict[str, Any]:
    """Of each number, how often it was there, and the sum over all results."""
    total: dict[str, list[np.ndarray]] = {}
    for k, result in enumerate(results):
        for name, value in stored.by_name(result).items():
            array = np.zeros(0) if value is None else np.asarray(value, float)
            finite = np.where(np.isfinite(array), array, 1e3)
            count, before = total.get(f"{name}, {array.size}", (np.zeros(1), np.zeros(array.size)))
            total[f"{name}, {array.size}"] = [count + 1 + k / 100, before + (1.5 + np.cos(k)) * finite]
    return {name: np.concatenate(both) for name, both in total.items()}


def quickly(fn: Any, *arguments: Any, **options: Any) -> Any:
    """What a function gives, compiled with little effort."""
    arrays = jax.tree.map(jnp.asarray, arguments)
    return jax.jit(partial(fn, **options)).lower(*arrays).compile(compiler_options=QUICKLY)(*arrays)


# ---- programmes ------------------------------------------------------------------------------------------------------

SIDES = np.array([-0.3, -0.6, -0.2, 0.1]), np.array([0.5, 0.4, 0.9, 0.1])
SETS: dict[str, Any] = {
    "box": conic.box(*SIDES),
    "simplex": conic.simplex(1.2, 4),
    "ball": tr.L2Ball(0.8, shape=4).conic(np.zeros(4)),
    "l1": tr.L1Ball(0.8, shape=4).conic(np.zeros(4)),
    "nuclear": tr.NuclearBall(1.1, shape=(2, 2)).conic(jnp.zeros((2, 2))),
}
SIDE = np.hstack([np.eye(4), np.zeros((4, 1))])
SETS["made up"] = conic.Conic.of(  # with helpers that weigh more than the point, and less
    [("nonnegative", np.vstack([SIDE, -SIDE, [1, 0, 2, 0, 5.0], [0, 0, 0, 0, -3.0], [0, 1, 0, 0, 0.2]]), np.full(11, 0.6))],
    np.full(4, -0.6), np.full(4, 0.6), helpers=1,
)  # fmt: skip
CENTRES = {"box": np.array([0.1, 0.0, 0.2, 0.1]), "simplex": np.full(4, 0.3)}


def regions() -> Any:
    """Sets in units of their widths, and linear and quadratic programmes on them."""
    found = {}
    for name, one in SETS.items():
        region = region_of(one, CENTRES.get(name, np.linspace(-0.1, 0.2, 4)))
        rng = np.random.default_rng(2)
        answers = []
        for k in range(6):
            cost, rows, root = rng.normal(size=4 + k % 2), rng.normal(size=(k % 4, 4 + k % 2)), rng.normal(size=(4, 4))
            cost[4:] = 1.0
            rows[:, 4:] = -1.0 - np.abs(rows[:, 4:])
            sides = rng.uniform(0.1, 0.4, size=len(rows)) - (k == 5)
            bends = k > 1 or name in ("ball", "nuclear")  # where linear programmes are solved to fewer digits
            answers.append(solve(region, cost, rows, sides, root @ root.T if bends else None))
        found[name] = {"region": region._asdict() | {"cones": repr(region.cones)}, "solutions": mixed(answers)}
    return found


def programme(
    rng: np.random.Generator, d: int, N: int, tight: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    root = rng.normal(size=(d, d))
    return rng.normal(size=d), root @ root.T + 0.05 * np.eye(d), rng.normal(size=(N, d)), rng.normal(size=N) - tight


def steps() -> Any:
    """Quadratic programmes: on balls and boxes by the dual, on other sets by the solver."""

    def one(g, B, J, h, within):
        unit, units = 10.0 ** rng.integers(-8, 8), 10.0 ** rng.integers(-3, 4, size=len(h))  # in which it is written
        try:
            step = best_step(unit * g, unit * B, units[:, None] * J, units * h, within)
        except Inconsistent:
            return None
        return step and step._replace(lam=step.lam * units / unit)

    rng, found = np.random.default_rng(6), {}
    small = region_of(conic.box(np.full(4, -0.5), np.full(4, 0.7)), np.full(4, 0.1))
    slim = region_of(SETS["simplex"], CENTRES["simplex"])
    ball = np.array([0.3, 0.0, -0.4, 0.1])
    places = {"wide": Ball(np.full(4, 0.1), 50.0), "ball": Ball(ball, 0.9), "box": small, "simplex": slim}
    for name, (N, tight) in {"none": (0, 0.0), "one": (1, 0.2), "three": (3, 0.6), "tight": (4, -0.4)}.items():
        for where, within in places.items():
            found[f"{name}, {where}"] = mixed(one(*programme(rng, 4, N, tight), within) for _ in range(8))
    many = [one(*programme(rng, 4, 60, 3.0), within) for within in (small, slim)]
    faces = region_of(conic.box(np.full(60, -0.01), np.full(60, 0.01)), np.zeros(60))
    of_faces = [
        quadratic._on_faces(*programme(rng, 60, 2, 1.0), faces),
        quadratic._on_faces(*programme(rng, 4, 2, 0.0), small),
    ]
    return found | {"many": mixed(many), "faces": mixed(of_faces)}


def multipliers() -> Any:
    """The dual of a programme: constraints that depend on each other, that are long or short, or not needed."""

    by_least_squares = quadratic._by_least_squares

    def one(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        rows, need = rng.normal(size=(4, 3)) * np.array([1.0, 1e-3, 40.0]), rng.normal(size=3)
        if seed % 4 == 1:
            rows[:, 2] = 2 * rows[:, 0]
        if seed % 8 == 3:
            rows[:, 1] = 0
        if seed % 8 == 5:
            rows[:, 1] *= 1e-10
        if seed % 8 == 7:
            rows[:, 1] = need[1] = 0
        rows, need = rows * 10.0 ** (seed % 5 - 2), need * 10.0 ** (seed % 3)
        gram = rows.T @ rows
        found: dict[str, Any] = {}
        for name, way in {"short": quadratic._multipliers, "long": partial(by_least_squares, gram=gram)}.items():
            try:
                with patch.object(quadratic, "_by_least_squares", wraps=quadratic._by_least_squares) as longer:
                    lam = way(rows, need)
                found[name] = [lam / np.max(lam, initial=1e-300), longer.call_count]  # which way was taken
            except Inconsistent:
                found[name] = None
        alone = quadratic._with(gram, need, np.array([True, False, seed % 3 > 0]))
        return found | {"with": None if alone is None else alone / np.max(np.abs(alone))}

    flat = np.diag([3.0, 0.0, 1.0])
    deep = flat - 1e-9 * np.eye(3)
    factors = [quadratic._factor(B) for B in (flat, deep, np.array([[2.0, 0.5], [0.5, 1.0]]))]
    return {"multipliers": mixed(map(one, range(40))), "factors": mixed(factors)}


# ---- cuts ------------------------------------------------------------------------------------------------------------


def some_looks(seed: int, K: int, N: int, level: float) -> tuple[Looks, Units, np.ndarray]:
    """Looks at a square and at N others, in units that differ."""
    rng, width = np.random.default_rng(seed), np.array([0.02, 1.0, 30.0, 1.0])
    p, q = rng.uniform(-0.5, 0.5, size=4), rng.uniform(-0.5, 0.5, size=(N, 4))
    y, unit_f, unit_h = rng.uniform(-1, 1, size=(K, 4)), 300.0, np.array([0.01, 20.0, 1.0])[:N]
    away = y[:, None, :] - q
    f, grad = unit_f * np.sum((y - p) ** 2, axis=1), unit_f * 2 * (y - p) / width
    h = unit_h * (np.sum(away**2, axis=2) - level) if N else np.zeros((K, 0))
    errors = [1e-9 * rng.uniform(size=shape) for shape in ((K,), (K, N), (K,), (K, N))]
    looks = Looks(y * width, f, h, grad, unit_h[:, None] * 2 * away / width, *errors)
    return looks, Units(1.7 * unit_f, 1.3 * unit_h), width


def cuts() -> Any:
    """Bounds, promises and points of models of few and many cuts."""

    def one(seed: int, N: int, level: float) -> Any:
        looks, units, width = some_looks(seed, 5, N, level)
        upper = width * np.array([1.0, 1.2, 0.7, 1.0])

        def support(g: np.ndarray) -> float:
            return float(np.sum(np.maximum(-g * width, g * upper)))

        cut = Model(looks, units, region_of(conic.box(-width, upper), looks.x[-1] / 2), support)
        rng = np.random.default_rng(seed + 1)
        mu, nu = rng.uniform(size=5), rng.uniform(size=(5, N)) / units.h
        found = {
            "f": cut.f,
            "h": cut.h,
            "F": cut.F,
            "H": cut.H,
            "bound": cut.bound(mu, nu),
        }
        low = looks.f.min() - 0.2 * units.f
        for name, room in {"level": low, "any": None}.items():
            found[name] = cut.level_point(room, looks.x[0], 0.3)
        hessian = np.diag(rng.uniform(1, 5, size=4) * units.f) / width / width[:, None]
        found["newton"] = [cut.newton_point(2, hessian, room) for room in (None, looks.f.max(), low)]
        bounds = [cut.lower_bound(), cut.infeasibility() if N else None]
        bounds = [b and b._replace(nu=b.nu * units.h) for b in bounds]
        return found | {
            "bounds": bounds,
            "promised": cut.values(looks.x.mean(axis=0)),
            "of bounds": [None if b is None else (b.certain, b.lam) for b in bounds],
        }

    cases = [(seed, N, level) for seed in range(0, 12, 2) for N, level in ((0, 0.0), (1, 1.5), (2, 0.7), (3, 0.1))]
    few = mixed(one(*case) for case in cases)
    with patch.object(model, "_ALL", 8):
        return {"all": few, "in rounds": mixed(one(*case) for case in cases)}


def combinations() -> Any:
    """The best mixtures of looks."""

    def one(seed: int) -> Any:
        looks, units, _ = some_looks(seed, 1 + seed % 7, seed % 4, (0.4, 1.2, 3.0)[seed % 3])
        return best_combination(looks, units, 1e-3 * np.abs(looks.h) if seed % 2 else 0 * looks.h)

    return mixed(map(one, range(60)))


# ---- what every method has -------------------------------------------------------------------------------------------


@tr.pytree
class Bare(tr.Method):
    """A method that says nothing of itself."""

    coefficient: Any = 0.5

    def step(self, problem, state, theta):
        """It stands still."""
        return state, base.Info(state.x, state.lam, jnp.zeros(()), state.lam)


@tr.pytree
class Looking(base.Refreshing):
    """The same, with looks at all the data."""

    coefficient: Any = 0.5

    def step(self, problem, state, theta):
        """It stands still."""
        return state, base.Info(state.x, state.lam, jnp.zeros(()), state.lam)

    def refresh(self, problem, state, data):
        """It sees nothing."""
        return state


def defaults() -> Any:
    """What holds where a method says nothing, and what is shared by all."""
    x, lam, h = jnp.array([0.4, -0.2, 0.1]), jnp.array([0.3, 0.6]), jnp.array([-0.9, 0.7])
    theta = jax.tree.map(lambda v: jnp.asarray(v[0]), samples(1))
    info = Bare().step(PLAIN, Bare().init(PLAIN, x, lam, jnp.asarray(9)), theta)[1]
    looking = replace(Looking(), refresh_every=4)
    return {
        "bare": declared(Bare(), PLAIN),
        "looking": [declared(method, PLAIN) for method in (Looking(), looking)],
        "nothing": repr([getattr(looking, name)(None) for name in ("snapshot", "proof", "inner")]),
        "said": repr((Bare().said(None, []), Bare().answer(info), Bare().for_problem(PLAIN, x, theta).title)),
        "tuples": repr((base.Cost(), base.Rates(), base.Proof(1.0, 0.5, 0.1, 2.0), base.Proof(1.0, 0.5, 0.1, 2.0).gap)),
        "info": [info.weight, repr(info.record)],
        "after": base.State(x, lam, jnp.asarray(3), jnp.asarray(9)).after(-x, 2 * lam),
        "dual": base.dual_step(lam, h, gamma=0.4, shrink=0.1, upsilon=0.25),
        "ahead": base.look_ahead(PLAIN, x, -2 * x, h, theta),
    }


# ---- between looks ---------------------------------------------------------------------------------------------------


def of_looks() -> Any:
    """What looks decide by small rules."""
    rng = np.random.default_rng(8)
    shapes = [(2,), (), (1,), (2,), (1, 2), (), (1,), (), (1,)]
    numbers = np.array([3, 1, 4, 2]), np.array([5, 4, 5, 4])
    kept = Kept._make([*(rng.normal(size=(4, *shape)) for shape in shapes), *numbers])
    seen = (np.ones(2), 2.0, np.ones(1), np.ones(2), np.ones((1, 2)), 0.1, np.ones(1), 0.2, np.ones(1), 5, 5)
    more = [look._with(where, seen) for where in (kept, Kept._make([*kept[:-2], np.array([3, 0, 4, 0]), numbers[1]]))]
    sizes = [(n, d) for n in (3, 50, 2000, 100_000) for d in (1, 7, 40, 900)]

    def turn(n: int, d: int) -> Any:
        state = SimpleNamespace(bend=np.eye(d), lam=np.zeros(3))
        return SimpleNamespace(data=np.zeros((n, 1)), widths=np.ones(d), before=state, t=9)

    of_turns = [(turns.Turn.block.func(turn(*s)), turns.Turn.rows_for_hessian.fget(turn(*s))) for s in sizes]  # pyright: ignore
    stale = []
    for rows in (50, 49):
        at = SimpleNamespace(rows_for_hessian=rows, data=np.zeros((50, 1)), widths=np.ones(1), t=8)
        for thought, found, bent in (
            (1.0, 7.0, 2),
            (1.0, 8.0, 2),
            (1.0, 8.1, 4),
            (1.0, 8.1, 5),
            (8.0, 1.0, 1),
            (9.0, 1.0, 1),
        ):
            slopes = np.array([3.0, 4.0]), np.array([0.003, 0.004]) * thought
            stale.append(turns.Turn._stale(at, thought, found, *slopes, bent))  # pyright: ignore
    return {
        "kept": mixed((one._asdict(), places) for one, places in more),
        "rows": np.array([look.rows_for_hessian(n, d) for n, d in sizes]),
        "turns": np.array(of_turns),
        "stale": np.array(stale),
        "less": np.array(
            [turns._less(s, -d, g) for s in (1.0, 0.3) for d in (0.5, 2.0) for g in (-3.0, -0.1, 0.0, 0.2, 0.6)]
        ),
        "dearer": turns._dearer(np.array([0.0, 3.0, 1.0]), np.array([1.0, 1.0, 1.2])),
        "proven": mixed(map(proof, range(8))),
    }


def proof(seed: int) -> Any:
    """What states prove, feasible ones and others."""
    rng = np.random.default_rng(seed)
    numbers: dict[str, Any] = dict(
        zip(BundleState._fields, rng.uniform(1, 2, size=len(BundleState._fields)), strict=True)
    )
    vectors = {"lam": rng.uniform(size=2), "margin": rng.uniform(size=2), "conflict": np.array([0.0, 0.3 * (seed % 2)])}
    flags = {"feasible": seed % 3 > 0, "settled": seed > 4, "interior": seed < 3}
    nothing = {"kept": Kept._make(np.zeros(0) for _ in Kept._fields)}
    known = proven(BundleState._make((numbers | vectors | flags | nothing).values()))
    told = {name: value for name, value in known._asdict().items() if name != "points"}
    return told | {"conflict": [*known.conflict, *known.conflict.values()], "gap": known.gap}


# ---- curvature -------------------------------------------------------------------------------------------------------


def bends() -> Any:
    """Matrices: made semidefinite, mixed, and corrected by differences of gradients."""

    def one(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        root, widths = rng.normal(size=(3, 3)), np.array([0.02, 1.0, 40.0])
        B, step = root @ root.T, rng.normal(size=3)
        true = np.diag(rng.uniform(0.5, 4.0, size=3))
        x = rng.normal(size=(5, 3)) * widths
        x[3] = x[1] * (1 + 1e-12)
        slopes = x / widths @ true / widths + 0.05 * rng.normal(size=(5, 3)) / widths
        return {
            "positive": curvature.positive(root),
            "usual": curvature.usual(x / widths, slopes * widths),
            "mixed": [curvature.mixed(B, rows, 2.5) for rows in (1, 20)] + [curvature.mixed(0 * B, 3, 2.5)],
            "updated": [curvature.updated(B, step, change) for change in (true @ step, 0.02 * B @ step, -step)],
            "flat": curvature.updated(np.zeros((3, 3)), step, true @ step),
            "secants": [
                curvature.with_secants(B / widths / widths[:, None], 9, at, x, slopes, widths) for at in (1, 4)
            ],
            "alone": curvature.with_secants(B, 9, 0, x[:1], slopes[:1], widths),
        }

    widths = np.array([0.1, 10.0])
    diagonals = [
        np.diag(d) for d in ([0.9e-8, 0.0], [1.1e-8, 0.0], [-3e-8, 0.0], [0.0, 0.9e-12], [0.0, 2e-12], [0.0, 0.0])
    ]
    return {
        "bends": mixed(map(one, range(20))),
        "flat": np.array([curvature.is_flat(B, widths, 1.0) for B in diagonals]),
    }


def slopes_change(x: Any, theta: Any, how: Any) -> Any:
    """Of second order, with a kink, or linear."""
    y = x - theta["a"]
    return how[0] * jnp.sum(y**2) + how[1] * jnp.abs(x[0] - 0.3) + how[2] * x[1] + how[3] * jnp.sum(y**4)


def squared(x: Any, theta: Any, how: Any) -> Any:
    """A constraint that bends as much as the objective does."""
    return (x[:1] * how[0] + theta["b"][:1]) ** 2


def lacking() -> Any:
    """Where curvature or smoothness is missed, and how the slope changed along the line."""
    shares = {
        "round": [1.0, 0, 1, 0.1],
        "kinked": [0.1, 1, 1, 0],
        "linear": [0.0, 0, 1, 0],
        "hardly": [1e-3, 0.02, 1, 0.0],
    }
    rows = jax.tree.map(lambda v: jnp.asarray(v[:, 0]), samples(30))
    program, found = None, {}
    for name, share in shares.items():
        problem = tr.Problem(slopes_change, squared, BOX, params=np.array(share))
        x, pulls, lam = jnp.array([0.4, -0.2, 0.1]), jnp.array([1.0, -0.5, 0.3]), jnp.array([0.7])
        if program is None:
            wrapped: Any = curvature._changes
            given = jax.tree.map(jnp.asarray, (problem, x, pulls, lam, rows))
            program = jax.jit(wrapped.__wrapped__).lower(*given).compile(compiler_options=QUICKLY)

        def changes(*given: Any, program: Any = program) -> Any:
            return program(*jax.tree.map(jnp.asarray, given))

        slope = np.array([1.0, -0.4, 0.2])
        looked = SimpleNamespace(grad=slope * (name != "hardly"), rows=np.array([[0.0, 2.0, 0.1]]))
        with patch.object(curvature, "_changes", changes), patch.object(curvature, "glance", lambda *_, at=looked: at):
            found[name] = {
                "lacks": curvature.lacks(problem, x, rows),
                "changes": [changes(problem, x, sign * pulls, lam, rows) for sign in (1, -1)],
            }
    return found


def on_all_rows() -> Any:
    """The Hessian of the Lagrangian, and values and slopes, of a point that is a tree."""
    rows, problem = jax.tree.map(lambda v: v[:, 0], samples(23)), replace(PLAIN, domain=PARTS)
    hessian: Any = curvature.lagrangian_hessian
    see: Any = look.see
    lam = np.array([0.4, 1.3])
    some = Some(np.int32(2), np.int32(1))
    return {
        "hessian": quickly(hessian.__wrapped__, problem, TREE, lam, rows, some, rows_a_slice=5),
        "seen": quickly(see.__wrapped__, problem, TREE, rows),
    }


# ---- scales that are measured ----------------------------------------------------------------------------------------


def epochs() -> Any:
    """Every formula of an epoch, at scales that differ by a thousand and in every stage."""
    n = 48
    rng: Any = np.random.default_rng(10)

    def some(*shape: int) -> Any:
        return rng.uniform(0.2, 2.0, size=(n, *shape)) * 10.0 ** rng.integers(-2, 2, size=(n, *shape))

    stage: Any = (np.arange(n) % 5).astype(np.int32)
    begin = (rng.integers(0, 30, size=n) * (stage > 0)).astype(np.int32)
    end = begin + rng.integers(2, 60, size=n).astype(np.int32)
    t = (begin + 1 + rng.integers(0, 60, size=n) % (end - begin)).astype(np.int32)
    horizon = (end * rng.integers(1, 4, size=n)).astype(np.int32)
    seen = measured.Seen(rng.normal(size=(n, 3)) * 9, some(2) * 9, some() * 9, some(2) * 9)
    sigma_h = some(2) * (rng.uniform(size=(n, 2)) > 0.15)
    sigma_g, Lam, R, x = some(), some(2) * (stage > 0)[:, None], some() * (stage > 1), rng.normal(size=(n, 3)) / 2
    pull, mean_h = some(), rng.normal(size=(n, 2))
    most = 0.1 * (seen.h + sigma_h**2)
    m = measured.Measured(seen, stage, begin, end, sigma_g, sigma_h, Lam, R, x, pull, Lam / 2, mean_h, most)
    q, apart, sigma_q, M = rng.normal(size=(n, 3)), some(), some(), some() * (stage > 1)
    tie = measured.Tie(q, apart, sigma_q, M, M / 2)
    x, lam, h = rng.normal(size=(n, 3)) / 2, some(2), rng.normal(size=(n, 2)) * some(2)

    def all_of_it(m, tie, x, lam, h, t, horizon):
        domain, w = BOX, BOX.widths(x)
        far = partial(measured.far_by_projection, domain, m.x)
        after = [measured.turn(domain, m, x, lam, horizon, anytime, far) for anytime in (False, True)]
        reach = jnp.asarray(domain.scaled_diameter, lam.dtype)
        return {
            "begin": measured.begin(x, lam, horizon, False),
            "counts": measured.counts(m, t),
            "pressing": measured.pressing(m, lam),
            "observed": measured.observe(m, x, lam, x * w, h, t),
            "eta": measured.eta(m),
            "dual": measured.dual_step(m, lam, h, t),
            "margin": measured.margin(m),
            "unsure": measured.unsure(m),
            "weight": [measured.weight(t, horizon, anytime, lam.dtype) for anytime in (False, True)],
            "due": measured.due(m, t, horizon),
            "turned": after,
            "tie": measured.observe_tie(m, tie, w, x, x / w, t),
            "q": measured.tie_step(m, tie, w, x, x * lam[0]),
            "tie turned": measured.turn_tie(m, tie, w, x, after[0][0], reach),
            "ends": [measured.end_of(m.stage, horizon, anytime) for anytime in (False, True)],
        }

    found = quickly(jax.vmap(all_of_it), m, tie, x, lam, h, t, horizon)
    said = [
        measured.said(jax.tree.map(lambda v, k=k: v[k], m), names)
        for k in (0, 2, 3)
        for names in ([], ["a"], list("abcd"))
    ]
    return {"formulas": mixed(jax.tree.map(lambda v, k=k: v[k], found) for k in range(n)), "said": "\n".join(said)}


# ---- judges ----------------------------------------------------------------------------------------------------------


def judgements() -> Any:
    """Of snapshots that are better, safer or neither, with linear minimisation and without."""
    n = 40
    rng: Any = np.random.default_rng(12)

    def snaps() -> snapshot.Snapshot:
        vector, pair = rng.normal(size=(n, 3)) / 3, rng.normal(size=(n, 2))
        return snapshot.Snapshot(
            vector, np.maximum(pair, 0), rng.normal(size=n), rng.normal(size=(n, 2)) - 0.5, 3 * vector - 1,
            rng.normal(size=(n, 2, 3)),
        )  # fmt: skip

    new, judge = (
        snaps(),
        merit.Judge(snaps(), snaps(), rng.uniform(size=(n, 2)), -2 - rng.uniform(size=n), rng.uniform(size=n)),
    )
    slopes, first = rng.uniform(0.1, 3, size=(n, 2)) * (rng.uniform(size=(n, 2)) > 0.1), np.arange(n) % 6 == 0

    def all_of_it(judge, snap, slopes, first):
        found = {}
        for name, domain in {"box": BOX, "without": WithoutLMO(1.4, shape=3)}.items():
            problem, wid = replace(PLAIN, domain=domain), domain.widths(snap.w)
            found[name] = merit.judged(problem, judge, snap, slopes, wid, first)
            found[name + " bound"] = snapshot.lower_bound(problem, *snap)
        return found | {
            "merit": judge.merit(snap.f, snap.h),
            "tolerates": judge.tolerates(snap.f, snap.h),
            "safer": merit._safer(snap, judge.safe, slopes, judge.floor),
            "norm": snapshot.jacobian_norm(snap.rows),
            "none": merit.no_judge(snapshot.no_snapshot(snap.w, snap.lam)),
        }

    found = quickly(jax.vmap(all_of_it), judge, new, slopes, first)
    rows = {"a": np.arange(700.0)[:, None]}
    return {
        "judged": mixed(jax.tree.map(lambda v, k=k: v[k], found) for k in range(n)),
        "probed": np.array([snapshot.probe_size(k) for k in (1, 7, 9, 64, 500, 600, 5000, 20_000)]),
        "rows": snapshot.probe_rows(rows),
        "without": snapshot.jacobian_norm(jnp.zeros((0, 3))),
    }


FOUND: dict[str, Callable[[], Any]] = {
    "base: defaults": defaults,
    "bundle/solve: programmes": regions,
    "bundle/model: cuts": cuts,
    "bundle/model: combinations": combinations,
    "bundle/look, bundle/state, second_order/look: rules": of_looks,
    "second_order/quadratic: steps": steps,
    "second_order/quadratic: multipliers": multipliers,
    "curvature: matrices": bends,
    "curvature: lacks": lacking,
    "curvature: on all rows": on_all_rows,
    "measured: epochs": epochs,
    "merit, snapshot: judgements": judgements,
}


@pytest.fixture(autouse=True)
def small_matrices():
    """Which more threads only slow down."""
    with one_thread():
        yield


@pytest.fixture(scope="module")
def table():
    return stored.read(TABLE)


def tolerance(name: str) -> tuple[float, float]:
    """Where a solver is in the way, a multiplier that is zero is not quite."""
    return (1e-4, 1e-4) if name.startswith(("bundle", "second_order")) else (1e-9, 1e-12)


@pytest.mark.parametrize("name", FOUND)
def test_parts_give_what_they_gave(name, table):
    stored.assert_as_stored(table[name], FOUND[name](), *tolerance(name))


if __name__ == "__main__":
    stored.write(TABLE, FOUND)
