"""Where a short run of every method ends, as kept in test_paths.json (see stored.py): no constant, sign, cap or default of a
method changes unless somebody means it."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
import stored

import tightrope as tr
from tightrope.lab.methods.primal.csa import MultiCSA
from tightrope.methods import METHODS
from tightrope.methods.conservative.cscgd import CSCGD
from tightrope.tree import ravel, replace

_RNG = np.random.default_rng(2)
ROWS = {"a": _RNG.normal([1.0, -0.5, 0.2], 0.7, size=(300, 3)), "b": _RNG.normal(0.5, 0.4, size=(300, 2))}
UNITS = {"f": 1.3, "h": np.array([0.7, 2.0])}
LEVELS = np.array([0.3, -0.1])
X = np.array([0.4, -0.2, 0.1])


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


BOX = tr.Box(np.array([-1.0, -0.5, -2.0]), np.array([1.5, 0.7, 2.0]), shape=3)
BALL, SIMPLEX = tr.L1Ball(1.7, shape=3), tr.Simplex(1.3, shape=3)
PARTS = tr.Product({"b": tr.Box(-0.5, 1.1, shape=()), "w": tr.L2Ball(1.4, shape=2)})
TREE = {"b": np.asarray(0.4), "w": np.array([-0.2, 0.1])}
PLAIN = tr.Problem(f, h, BOX, levels=LEVELS, params=UNITS)
FREE = tr.Problem(f, None, BALL, params=UNITS)
KNOWN = tr.Problem(f, h, BOX, levels=LEVELS, params=UNITS, exact_constraints=exact)
NESTED = tr.Problem(nested_f, nested_h, BOX, levels=LEVELS, params=UNITS, inner=inner)


class Case(NamedTuple):
    """A method on a problem."""

    method: Any
    problem: Any
    steps: int | None = 24
    x: Any = X


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
        tr.SplitCSOA(eta0=0.6, kappa0=0.9, gamma0=1.2, lam_radius=0.5, q_radius=0.4, anytime=True), on(BALL)
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
    "conservative/cfwcsoa: line": Case(KINDS["cfw-csoa"](move="line"), on(BALL)),
    "conservative/cfwcsoa: open": Case(KINDS["cfw-csoa"](), on(BALL)),
    "conservative/svrfcsoa": Case(tr.SVRFCSOA(refresh_every=8), on(BALL)),
    "conservative/svrgcsoa: parts": Case(tr.SVRGCSOA(refresh_every=2), on(PARTS), 40, TREE),
    "conservative/svrgcsoa: exact": Case(tr.SVRGCSOA(refresh_every=8), KNOWN),
    "conservative/svrgcsoa: free": Case(tr.SVRGCSOA(refresh_every=2), replace(FREE, domain=BOX)),
    "bundle": Case(tr.Bundle(), PLAIN, None),
    "second_order: sqp": Case(tr.SQP(), PLAIN, None),
    "frank_wolfe/affinefw": Case(KINDS["affine-fw"](), on(BALL, KNOWN)),
    "frank_wolfe/coexcg": Case(KINDS["coexcg"](), on(BALL)),
    "frank_wolfe/coexcg: regularised": Case(KINDS["coexdurcg"](), on(BALL)),
    "frank_wolfe/ofw": Case(KINDS["ofw"](), FREE),
    "frank_wolfe/osfw": Case(KINDS["1-sfw"](), FREE),
    "frank_wolfe/scgd": Case(KINDS["scgd"](), FREE),
    "frank_wolfe/sfw": Case(KINDS["sfw"](), FREE, 40),
    "frank_wolfe/svrf": Case(KINDS["svrf"](m0=0.3, refresh_every=8), FREE, 80),
    "primal/csa": Case(KINDS["csa"](), PLAIN),
    "primal/csa: random": Case(MultiCSA(), PLAIN),
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


@pytest.mark.parametrize("name", CASES)
def test_it_ends_where_it_ended(name):
    method, problem, steps, x = CASES[name]
    budget: Any = {"steps": steps, "batch_size": 2} if steps else {"passes": 40}
    found = tr.minimize(problem, ROWS, method=method, x0=x, record=0, **budget)
    ends = {"x": ravel(found.x)[0], "dual": found.dual, "objective": found.objective, "status": found.status.name}
    # A solver's programmes are solved to 1e-9, and which of their points that is hangs on how a compiler adds up.
    stored.same(__file__, name, ends, rel=1e-6 if isinstance(method, tr.Solver) else 1e-8)


def test_every_method_is_here():
    assert set(METHODS) == {case.method.name for case in CASES.values()}, (
        "add a case, and write its end (see stored.py)"
    )
