"""Where every method goes on small problems, step by step, and what it declares: numbers kept in test_paths.json.

They are not right because they stand there: other tests hold methods against their formulas. Here no constant, sign, cap or
default changes unless somebody means it. `PYTHONPATH=src:tests python tests/methods/test_paths.py` writes them anew.

A case is a program that is compiled once, with little effort, and run with several settings: coefficients as they are by
default, others, and so large ones that caps are reached; each in other units of f, h and the multipliers.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stored

import tightrope as tr
from tightrope._jaxlib import COMPILED_SOON
from tightrope.lab.methods.primal.csa import MultiCSA
from tightrope.methods import METHODS, base
from tightrope.methods.conservative.cscgd import CSCGD
from tightrope.tree import ravel, replace

TABLE = Path(__file__).with_suffix(".json")
# Programs are compiled to be run once: a third of the time.
QUICKLY: Any = COMPILED_SOON | {"xla_backend_optimization_level": 0, "xla_cpu_parallel_codegen_split_count": 1}

# ---- problems --------------------------------------------------------------------------------------------------------

_RNG = np.random.default_rng(2)


def samples(steps: int) -> dict[str, np.ndarray]:
    """Batches of two."""
    return {"a": _ROWS["a"][:steps], "b": _ROWS["b"][:steps]}


_ROWS = {"a": _RNG.normal([1.0, -0.5, 0.2], 0.7, size=(300, 2, 3)), "b": _RNG.normal(0.5, 0.4, size=(300, 2, 2))}
_OTHERS = jax.tree.map(lambda rows: rows[::-1], _ROWS)
UNITS = {"f": 1.3, "h": np.array([0.7, 2.0])}
OTHER_UNITS = {"f": 0.02, "h": np.array([40.0, 0.3])}
LEVELS = np.array([0.3, -0.1])
X, LAM = np.array([0.4, -0.2, 0.1]), np.array([0.3, 0.6])


def f(x, theta, units):
    """Of fourth order."""
    apart = ravel(x)[0] - theta["a"]
    return units["f"] * jnp.sum(apart**2 + apart**4 / 9) / 2


def h(x, theta, units):
    """Of second order."""
    v, (p, q) = ravel(x)[0], theta["b"]
    return units["h"] * jnp.stack([jnp.dot(v, theta["a"]) + jnp.sum(v**2) / 4, v[0] - v[1] * p + q**2 * v[2] ** 2])


def exact(x, units):
    """Constraints without noise."""
    return h(x, {"a": jnp.array([0.9, -0.4, 0.3]), "b": jnp.array([0.4, 0.7])}, units)


def inner(x, theta, units):
    """What is averaged inside a nested problem."""
    v = ravel(x)[0]
    return {"mean": jnp.dot(v, theta["a"]), "square": jnp.dot(v, theta["a"]) ** 2 / 3}


def nested_h(x, theta, units, inner):
    """A variance, and a constraint that sees nothing of what is inside."""
    of_x = h(x, theta, units)
    return jnp.stack([units["h"][0] * (inner["square"] - inner["mean"] ** 2 / 9), of_x[1]])


def nested_f(x, theta, units, inner):
    """An objective that bends with what is inside."""
    return f(x, theta, units) + units["f"] * inner["mean"] ** 2 / 7


@tr.pytree
class Remembering(tr.L1Ball):
    """A ball whose linear minimisation remembers how often it was asked and how steep that was."""

    def lmo_memory(self, dtype=None):
        return jnp.zeros((2,), dtype)

    def lmo_record(self, memory):
        return {"asked": memory[0], "steep": memory[1]}

    def warm_lmo(self, g, memory):
        return self.lmo(g), memory + jnp.stack([jnp.ones_like(g[0]), jnp.max(jnp.abs(g))])


@tr.pytree
class WithoutLMO(tr.L2Ball):
    """A ball that can only project."""

    @property
    def has_lmo(self):
        return False


@tr.pytree
class Correcting(Remembering):
    """A ball that knows a better step."""

    def corrective(self, x, s, g, line):
        return self.mix(x, s, jnp.clip(line(self.between(x, s)) / 2, 0, 1))


BOX = tr.Box(np.array([-1.0, -0.5, -2.0]), np.array([1.5, 0.7, 2.0]), shape=3)
BALL, SIMPLEX = Remembering(1.7, shape=3), tr.Simplex(1.3, shape=3)
PARTS = tr.Product({"b": tr.Box(-0.5, 1.1, shape=()), "w": tr.L2Ball(1.4, shape=2)})
TREE = {"b": np.asarray(0.4), "w": np.array([-0.2, 0.1])}
PLAIN = tr.Problem(f, h, BOX, levels=LEVELS, params=UNITS)
FREE = tr.Problem(f, None, BALL, params=UNITS)
KNOWN = tr.Problem(f, h, BOX, levels=LEVELS, params=UNITS, exact_constraints=exact)
NESTED = tr.Problem(nested_f, nested_h, BOX, levels=LEVELS, params=UNITS, inner=inner)


# ---- runs ------------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A method on a problem."""

    method: Any
    problem: Any
    steps: int = 24
    x: Any = X
    most: float = 8.0  # factor of coefficients that are large


def run(method: Any, problem: Any, x: Any, lam: Any, horizon: Any, theta: Any) -> Any:
    """First and last state, and what steps reported: those of step t count t times."""
    number = jnp.arange(1.0, 1 + jax.tree.leaves(theta)[0].shape[0])

    def step(state, seen):
        k, theta = seen
        state, info = method.step(problem, state, theta)
        return state, jax.tree.map(lambda v: k * jnp.asarray(v, float), info._asdict())

    first = state = method.init(problem, x, lam, horizon)
    if isinstance(method, tr.Refreshing):
        rows = jax.tree.map(lambda v: v.reshape(-1, *v.shape[2:]), theta)
        every = method.refresh_every or 1

        def epoch(state, seen):
            return jax.lax.scan(step, method.refresh(problem, state, rows), seen)

        in_epochs = jax.tree.map(lambda v: v.reshape(-1, every, *v.shape[1:]), (number, theta))
        state, infos = jax.lax.scan(epoch, state, in_epochs)
        infos = jax.tree.map(lambda v: v.sum(0), infos)
    else:
        state, infos = jax.lax.scan(step, state, (number, theta))
    return {
        "first": first,
        "last": state,
        "reported": jax.tree.map(lambda v: v.sum(0), infos),
        "answer": method.answer(state),
    }


def one_sample() -> Any:
    return jax.tree.map(lambda v: v[0, 0], _ROWS)


def settings(case: Case) -> dict[str, tuple[Any, ...]]:
    """Method, problem, point, multipliers and horizon of the runs."""
    method, problem = case.method, case.problem
    n = 0 if problem.constraints is None else 2
    lam = LAM[:n]
    there = replace(problem, params=OTHER_UNITS)
    return {
        "as it is": (method, problem, case.x, lam, case.steps),
        "others": (coefficients(method, 0.6), there, jax.tree.map(lambda v: -v / 2, case.x), 0 * lam, case.steps + 13),
        "large": (coefficients(method, case.most), problem, case.x, 4 * lam, case.steps),
    }


def coefficients(method: Any, factor: float) -> Any:
    """The method with other coefficients, every one times a factor of its own."""
    values = {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}
    given = {name: v for name, v in values.items() if isinstance(v, float)}
    changed = {name: factor * (1 + k / 7) * (v or 0.3) for k, (name, v) in enumerate(given.items())}
    return replace(method, **{k: min(v, 0.95) if k in method.below_one else v for k, v in changed.items()})


def path(case: Case) -> Any:
    """Everything that is kept of a case."""
    method, problem = case.method, case.problem
    if problem.nested:
        method = method.for_problem(problem, case.x, one_sample())
    if isinstance(method, tr.Refreshing):
        method = method.for_rows(2 * case.steps, 2)
    theta = samples(case.steps)
    if method.cost.samples == 2:
        theta = theta, jax.tree.map(lambda rows: rows[: case.steps], _OTHERS)
    found, program = {}, None
    for name, (chosen, there, x, lam, horizon) in settings(case._replace(method=method)).items():
        arrays = jax.tree.map(jnp.asarray, (chosen, there, x, lam, np.int32(horizon), theta))
        if program is None:
            program = jax.jit(run).lower(*arrays).compile(compiler_options=QUICKLY)
        found[name] = program(*arrays)
    state = found["as it is"]["last"]
    return {"declared": declared(method, problem), "said": said(method, state), "path": found}


def said(method: Any, state: Any) -> Any:
    """What a method says of the run, and what it proves."""
    return [method.said(state, ["one", "two"])] + (
        [method.inner(state), method.snapshot(state)] if isinstance(method, tr.Refreshing) else []
    )


# ---- what is declared ------------------------------------------------------------------------------------------------

NAMES = [
    *(
        "name",
        "title",
        "cost",
        "output",
        "averages",
        "vertices",
        "multipliers",
        "takes_nested",
        "full_batch",
        "anytime",
    ),
    *("positive", "below_one", "margin", "margin_power", "published", "published_by_steps", "tuned"),
]
MANY = (1, 2, 7, 100, 5000)


def declared(method: Any, problem: Any) -> dict[str, Any]:
    """What a method says of itself, in words and in numbers."""
    words = {name: repr(getattr(method, name)) for name in NAMES}
    words |= {"needs": repr(sorted(method.needs)), "coefficients": repr(method), "by default": repr(type(method)())}
    both = method, coefficients(method, 0.6)
    costs = [(one.total_cost(n), one.cost_in(problem.domain, n)) for one in both for n in MANY]
    numbers = {
        "costs": np.array(costs),
        "tightening": np.array([one.tightening(n) for one in both for n in MANY]),
        "used": np.array([base.gradients_used(method, n, 3, 50) for n in MANY]),
        "within": np.array([base.steps_within(method, passes, 3, 50) for passes in (0.01, 1, 2.5, 20)]),
    }
    if isinstance(method, tr.Refreshing):
        words["on host"] = repr((method.on_host, method.feasible_output))
        sizes = (1, 20, 130, 3000, 200_000)
        numbers["batches"] = np.array([method.default_batch(n) for n in sizes])
        fresh: Any = type(method)()
        numbers["epochs"] = np.array([fresh.for_rows(n, b).refresh_every or 0 for n in sizes for b in (1, 7)])
        numbers["looks"] = np.array(
            [(method.gradients_a_refresh(n), method.gradients_of_refreshes(9, n)) for n in sizes]
        )
        numbers["a look"] = np.array(method.cost_of_refresh(problem.domain))
    large = coefficients(method, 8.0)
    return words | numbers | {f"refused {n}": refused(large, n) for n in (1, 50, 400)}


def refused(method: Any, horizon: int) -> str:
    """What is said against coefficients, if anything is."""
    try:
        method.check(horizon)
    except ValueError as said:
        return str(said)
    return ""


# ---- cases -----------------------------------------------------------------------------------------------------------


def on(domain: Any, problem: tr.Problem = PLAIN) -> tr.Problem:
    """The problem on another set."""
    return replace(problem, domain=domain)


KINDS: dict[str, Any] = dict(METHODS)
_MEASURED = 150  # steps: a pilot, and two epochs
CASES: dict[str, Case] = {
    "conservative/csoa: given": Case(tr.CSOA(eta0=0.5), PLAIN),
    "conservative/csoa: anytime": Case(tr.CSOA(eta0=0.5, delta=0.4, anytime=True), PLAIN),
    "conservative/csoa: measured": Case(tr.CSOA(), PLAIN, _MEASURED),
    "conservative/csoa: measured at any time": Case(tr.CSOA(anytime=True), PLAIN, _MEASURED),
    "conservative/fwcsoa: paper": Case(tr.FWCSOA(schedule="paper"), on(BALL)),
    "conservative/fwcsoa: two_scale": Case(tr.FWCSOA(schedule="two_scale"), on(BALL)),
    "conservative/fwcsoa: sqrt": Case(tr.FWCSOA(eta0=0.7), on(BALL)),
    "conservative/fwcsoa: sqrt with gamma0": Case(tr.FWCSOA(gamma0=0.7), on(BALL)),
    "conservative/fwcsoa: measured": Case(tr.FWCSOA(), on(BALL), _MEASURED),
    "conservative/mfwcsoa: sampled": Case(KINDS["mfw-csoa"](), on(BALL)),
    "conservative/mfwcsoa: exact": Case(KINDS["mfw-csoa"](), on(BALL, KNOWN)),
    "conservative/splitcsoa: given": Case(tr.SplitCSOA(eta0=0.6), on(BALL)),
    "conservative/splitcsoa: cut": Case(
        tr.SplitCSOA(eta0=0.6, kappa0=0.9, gamma0=1.2, lam_radius=0.5, q_radius=0.4, anytime=True), on(BALL), most=2.0
    ),
    "conservative/splitcsoa: tied": Case(tr.SplitCSOA(upsilon0=0.6), on(BOX)),
    "conservative/splitcsoa: measured": Case(tr.SplitCSOA(), on(BALL), _MEASURED),
    "conservative/splitcsoa: parts": Case(
        tr.SplitCSOA(), on(tr.Product({"b": tr.Box(-0.5, 1.1, shape=()), "w": tr.L1Ball(1.4, shape=2)})), 70, TREE
    ),
    "conservative/cscgd: plain": Case(CSCGD(), PLAIN),
    "conservative/cscgd: anytime": Case(CSCGD(anytime=True), PLAIN),
    "conservative/cscgd: nested": Case(CSCGD(), NESTED),
    "conservative/cscgd: nested anytime": Case(CSCGD(anytime=True), NESTED),
    "conservative/cscgd: measured": Case(CSCGD(schedule="measured"), NESTED, _MEASURED),
    "conservative/cfwcsoa: corrective": Case(KINDS["cfw-csoa"](), on(Correcting(1.7, shape=3))),
    "conservative/cfwcsoa: line": Case(KINDS["cfw-csoa"](move="line"), on(BALL)),
    "conservative/cfwcsoa: open": Case(KINDS["cfw-csoa"](), on(BALL)),
    "conservative/svrfcsoa": Case(tr.SVRFCSOA(refresh_every=8), on(BALL)),
    "conservative/svrgcsoa: parts": Case(tr.SVRGCSOA(refresh_every=2), on(PARTS), 40, TREE, most=2.0),
    "conservative/svrgcsoa: exact": Case(tr.SVRGCSOA(refresh_every=8), KNOWN, most=2.0),
    "conservative/svrgcsoa: free": Case(tr.SVRGCSOA(refresh_every=2), replace(FREE, domain=BOX), most=0.2),
    "frank_wolfe/affinefw": Case(KINDS["affine-fw"](), on(BALL, KNOWN)),
    "frank_wolfe/coexcg": Case(KINDS["coexcg"](), on(BALL)),
    "frank_wolfe/coexcg: regularised": Case(KINDS["coexdurcg"](), on(BALL)),
    "frank_wolfe/ofw": Case(KINDS["ofw"](), FREE),
    "frank_wolfe/osfw": Case(KINDS["1-sfw"](), FREE),
    "frank_wolfe/scgd": Case(KINDS["scgd"](), FREE),
    "frank_wolfe/sfw": Case(KINDS["sfw"](), FREE, 40, most=2.0),
    "frank_wolfe/svrf": Case(KINDS["svrf"](m0=0.3, refresh_every=8), FREE, 80, most=2.0),
    "primal/csa": Case(KINDS["csa"](), PLAIN),
    "primal/csa: random": Case(MultiCSA(), PLAIN),
    "primal/csa: worst": Case(MultiCSA(choice="worst"), PLAIN),
    "primal/oneprojection": Case(KINDS["one-projection"](rounds=4), on(BOX, KNOWN)),
    "primal/pfs": Case(KINDS["pfs"](), on(BOX, KNOWN)),
    "primal/storm": Case(KINDS["storm"](), replace(FREE, domain=BOX)),
    "primal_dual/aprid: box": Case(KINDS["aprid"](), PLAIN),
    "primal_dual/aprid: ball": Case(KINDS["aprid"](), on(BALL)),
    "primal_dual/conex": Case(KINDS["conex"](), PLAIN),
    "primal_dual/delayed": Case(KINDS["async-saddle"](delay=3), PLAIN),
    "primal_dual/delayed: cyclic": Case(KINDS["async-saddle"](delay=2, pattern="cyclic"), PLAIN),
    "primal_dual/goco": Case(KINDS["g-oco"](margin0=0.2), PLAIN),
    "primal_dual/longterm: jenatton": Case(KINDS["jenatton"](), PLAIN),
    "primal_dual/longterm: mjy": Case(KINDS["mjy"](), PLAIN),
    "primal_dual/kimlee": Case(KINDS["kim-lee"](), PLAIN),
    "primal_dual/madavanbose": Case(KINDS["madavan-bose"](), PLAIN),
    "primal_dual/mirror: rsa": Case(KINDS["rsa"](), replace(FREE, domain=BOX)),
    "primal_dual/mirror: box": Case(KINDS["mirror-sa"](dual_radius=1.0), PLAIN),
    "primal_dual/mirror: simplex": Case(KINDS["mirror-sa"](), on(SIMPLEX), x=np.array([0.4, 0.7, 0.2])),
    "primal_dual/nupi": Case(KINDS["nupi"](), PLAIN),
    "primal_dual/opdmd: box": Case(KINDS["opdmd"](), PLAIN),
    "primal_dual/opdmd: simplex": Case(KINDS["opdmd"](), on(SIMPLEX), x=np.array([0.4, 0.7, 0.2])),
    "primal_dual/sapmm": Case(KINDS["sapmm"](rounds=3), PLAIN),
    "primal_dual/slpmm": Case(KINDS["slpmm"](rounds=3), PLAIN),
}


def of_svrgcsoa() -> Any:
    """What takes long to compile is not run, but declared."""
    without, nested = on(WithoutLMO(1.4, shape=3)), tr.SVRGCSOA().for_problem(NESTED, X, one_sample())
    return {
        "without lmo": declared(tr.SVRGCSOA(refresh_every=4), without),
        "nested": declared(nested.for_rows(50, 2), NESTED),
        "first": nested.init(NESTED, jnp.asarray(X), jnp.asarray(LAM), jnp.asarray(24)),
    }


FOUND: dict[str, Callable[[], Any]] = {
    **{name: lambda case=case: path(case) for name, case in CASES.items()},
    "conservative/svrgcsoa: declared": of_svrgcsoa,
}


@pytest.fixture(scope="module")
def table():
    return stored.read(TABLE)


@pytest.mark.parametrize("name", FOUND)
def test_it_goes_where_it_went(name, table):
    stored.assert_as_stored(table[name], FOUND[name](), rtol=1e-8, floor=1e-14, nothing=1e-15)


def test_every_method_is_here():
    elsewhere = {"bundle", "sqp"}  # in test_looks.py
    missing = set(METHODS) - elsewhere - {case.method.name for case in CASES.values()}
    assert not missing, "add a case for each, and run PYTHONPATH=src:tests python tests/methods/test_paths.py"


if __name__ == "__main__":
    stored.write(TABLE, FOUND)
