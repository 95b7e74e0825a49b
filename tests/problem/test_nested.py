"""Functions of means: exact on all rows, refused where a plain expectation is meant, tracked by CSCGD, certified."""

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import softmax

import tightrope as tr
from studies.nested import batch_by_batch, on_rows
from tightrope.confidence import studentised_upper
from tightrope.evidence.constraint_bounds import Range, Terms, bound_constraints
from tightrope.loop.choose import Setting, automatic
from tightrope.methods import METHODS
from tightrope.methods.base import title_of
from tightrope.problem.full_data import Some, bent_like, full_constraints, full_jacobian, full_values, linearised
from tightrope.problem.hessian import lagrangian_hessian
from tightrope.problems import EXACT, NESTED

ROWS = np.random.default_rng(0).normal([0.5, -0.2, 0.3], 1.0, size=(1500, 3))  # more than one slice
X = np.array([0.4, -0.1, 0.2])


def gain(x, theta, scale):
    return scale * jnp.dot(theta, x)


def everything(scale=1.3):
    """An objective with an inner mean of its own, and a stack of ready-made constraints and a plain one."""
    return tr.Problem(
        lambda x, theta, scale, inner: (gain(x, theta, scale) - inner["mean"]) ** 2 + jnp.exp(inner["mean"]),
        tr.stack(
            tr.variance_at_most(gain),
            lambda x, theta, scale: x[0] * theta[0],
            tr.ratio_at_most(lambda x, theta, scale: (x[0] - theta[0]) ** 2, lambda x, theta, scale: jnp.exp(theta[0])),
        ),
        tr.L2Ball(1.0, shape=3),
        levels=[0.1, 0.2, 0.3],
        params=scale,
        inner=lambda x, theta, scale: {"mean": gain(x, theta, scale)},
    )


def by_hand(x, scale=1.3, rows=ROWS):
    """(F, H) of `everything`, from means written down."""
    s, first = scale * rows @ x, rows[:, 0]
    ratio = jnp.mean((x[0] - first) ** 2) / jnp.mean(jnp.exp(first))
    h = jnp.stack([jnp.var(s), x[0] * jnp.mean(first), ratio]) - jnp.array([0.1, 0.2, 0.3])
    return jnp.var(s) + jnp.exp(s.mean()), h


def test_on_all_rows_everything_is_that_of_the_composition():
    problem = everything()

    @jax.jit
    def looked(x):
        near = linearised(problem, x, ROWS)  # a plain problem with the same values and gradients at x
        grad, rows = jax.jacobian(by_hand)(x)
        known = (*by_hand(x), grad, rows)
        return known, full_jacobian(problem, x, ROWS), near.jacobian(x, ROWS)

    known, *found = looked(X)
    for way in found:
        for a, b in zip(way, known, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    f, h = full_values(problem, X, ROWS)
    np.testing.assert_allclose(np.append(h, f), np.append(known[1], known[0]), rtol=1e-10)


def test_curvature_is_that_of_the_composition_and_some_rows_are_a_problem_of_their_own():
    problem, lam, part, second = everything(), np.array([0.7, 0.2, 1.5]), ROWS[500:1000], Some(1, 1)

    def lagrangian(x):
        f, h = by_hand(x, rows=part)
        return f + jnp.dot(lam, h)

    @jax.jit
    def known_and_found(x):
        known = *by_hand(x, rows=part), jax.grad(lagrangian)(x)
        f, h, grad, rows = full_jacobian(problem, x, ROWS, 500, second)
        return jax.hessian(lagrangian)(x), known, (f, h, grad + lam @ rows)

    hessian, known, found = known_and_found(X)
    bent = lagrangian_hessian(problem, X, lam, ROWS, second, 500)
    for a, b in zip((bent, *found), (hessian, *known), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_plain_problems_stay_what_they_are():
    """Not one more operation: a plain problem is traced to what its two functions are alone."""
    problem = EXACT["simplex"]().problem
    assert linearised(problem, None, None) is problem
    assert bent_like(problem, None, None, Some(1), 1) is problem
    for kind in (kind for kind in METHODS.values() if issubclass(kind, tr.Method)):
        assert type(kind().fitted(problem, problem.domain.start(), None)) is kind

    def f(x, theta):
        return jnp.sum((x - theta) ** 2)

    def h(x, theta):
        return jnp.stack([jnp.dot(x, theta), x[0]])

    def bare(x, lam, theta):
        one = theta[0]
        (value, seen), pull = jax.vjp(lambda point: (f(point, one), h(point, one) - 0.5), x)
        return value, seen, pull((jnp.ones_like(value), lam))[0]

    plain, given = tr.Problem(f, h, tr.L2Ball(1.0, shape=3), levels=0.5), (X, np.ones(2), ROWS[:1])
    counted = [jax.make_jaxpr(fn)(*given).jaxpr.eqns for fn in (plain.value_and_gradient, bare)]
    names = [[eqn.primitive.name for eqn in eqns] for eqns in counted]
    assert names[0] == names[1]


def test_every_method_takes_a_nested_problem_or_says_which_do():
    problem, able = everything(), {"bundle", "cscgd", "sqp", "svrg-csoa"}
    assert {name for name, kind in METHODS.items() if kind.facts.takes_nested} == able
    for name, kind in METHODS.items():
        if name not in able:
            with pytest.raises(TypeError, match=f"^{title_of(kind)} takes plain .*is nested.*Use method=") as said:
                tr.minimize(problem, ROWS, method=name, steps=1)
            assert all(f'"{other}"' in str(said.value) for other in able)
        elif issubclass(kind, tr.Method):  # and in reports it has the name that it is known by
            assert title_of(kind().fitted(problem, X, ROWS[0])) == kind.__name__


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTED)
def test_the_registry_is_right(name):
    """The optimality conditions hold, every constraint being active, and samples have these means."""
    solved = NESTED[name]()
    rows = solved.rows(50_000) if solved.table is None else solved.table

    @jax.jit
    def looked(x, rows):
        slope = jax.grad(solved.objective)(x) + solved.dual @ jax.jacobian(solved.constraints)(x)
        near = linearised(solved.problem, x, rows)
        f, h = jax.vmap(lambda one: near.sample_values(x, one))(rows)
        return solved.objective(x), solved.constraints(x), slope, f, h[:, 0]

    objective, constraints, slope, f, h = looked(solved.x, rows)
    assert float(objective) == pytest.approx(solved.optimum, abs=1e-9)
    np.testing.assert_allclose(np.append(slope, constraints), 0, atol=1e-9)
    for values, known in ((np.asarray(f), objective), (np.asarray(h), 0.0)):
        error = values.std() / np.sqrt(len(values)) if solved.table is None else 1e-9
        assert abs(values.mean() - float(known)) < 4 * error


# ---- CSCGD ---------------------------------------------------------------------------------------------------------------


def test_fifty_steps_are_those_of_a_numpy_transcription():
    """min <theta, x> s.t. Var <theta, x> <= level + log E exp <theta, x> as a second constraint."""
    rng, T, m = np.random.default_rng(2), 50, 2
    outer, inner = rng.normal(0.3, 1.0, size=(2, T, m, 3))
    problem = tr.Problem(
        lambda x, theta: jnp.dot(theta, x),
        tr.stack(
            tr.variance_at_most(lambda x, theta: jnp.dot(theta, x)),
            tr.entropic_risk_at_most(lambda x, theta: jnp.dot(theta, x), 2.0),
        ),
        tr.L2Ball(1.0, shape=3),
        levels=[0.5, 0.1],
    )
    method = tr.CSCGD(eta0=3.0, beta0=2.0, delta=0.1, upsilon0=0.3)
    fitted = method.fitted(problem, jnp.zeros(3), jax.ShapeDtypeStruct((3,), float))
    state = fitted.init(problem, jnp.asarray(X), jnp.array([0.2, 0.1]), jnp.asarray(T))
    step = jax.jit(fitted.step)
    for t in range(T):
        state, _ = step(problem, state, (outer[t], inner[t]))

    x, lam, z, a, level = X.copy(), np.array([0.2, 0.1]), np.zeros(2), 2.0, np.array([0.5, 0.1])
    eta, upsilon = 3.0 / T**0.75, 0.3 / T**0.25
    for t in range(T):
        beta = 1.0 if t == 0 else min(2.0 / T**0.5, 1.0)
        phi, theta = inner[t], outer[t]
        values = np.stack([phi @ x, np.expm1(a * (phi @ x)) / a])
        jacobian = np.stack([phi.mean(axis=0), (np.exp(a * (phi @ x))[:, None] * phi).mean(axis=0)])
        z = (1 - beta) * z + beta * values.mean(axis=1)
        s = theta @ x
        h = np.array([((s - z[0]) ** 2).mean(), np.log1p(a * z[1]) / a]) - level
        g = theta.mean(axis=0) + lam[0] * (2 * (s - z[0])[:, None] * theta).mean(axis=0)
        in_z = np.array([lam[0] * (-2 * (s - z[0])).mean(), lam[1] / (1 + a * z[1])])
        moved = x - eta * (g + jacobian.T @ in_z)
        x = moved / max(1.0, np.linalg.norm(moved))
        lam = np.maximum((1 - eta**2 * 0.1) * lam + eta * (h + upsilon), 0)
    for a_, b_ in ((state.x, x), (state.lam, lam), (state.z, z)):
        np.testing.assert_allclose(a_, b_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("schedule", ["published", pytest.param("measured", marks=pytest.mark.slow)])
def test_declared_cost_equals_counted_calls(schedule):
    calls = {"outer": 0, "inner": 0, "project": 0}

    def count(what):
        jax.debug.callback(lambda: calls.update({what: calls[what] + 1}))  # of what is computed, not of shapes

    @tr.pytree
    class Counting(tr.L2Ball):
        def project(self, x):
            calls["project"] += 1
            return super().project(x)

    def inner(x, theta):
        count("inner")
        return jnp.dot(theta, x)

    def f(x, theta, inner):
        count("outer")
        return (jnp.dot(theta, x) - inner) ** 2

    problem = tr.Problem(f, None, Counting(1.0, shape=3), inner=inner)
    method = tr.CSCGD(schedule=schedule).fitted(problem, jnp.zeros(3), jax.ShapeDtypeStruct((3,), float))
    state = method.init(problem, jnp.asarray(X), jnp.zeros(0), jnp.asarray(10))
    with jax.disable_jit():
        for _ in range(5):
            state, _ = method.step(problem, state, (ROWS[:1], ROWS[1:2]))
    jax.effects_barrier()
    cost = method.steps.cost(5)
    assert calls == {"outer": cost.gradients, "inner": cost.gradients, "project": cost.projections}
    assert cost.samples == 10


@pytest.mark.slow
def test_a_stream_stays_on_the_right_side():
    solved = NESTED["variance"]()
    options = {"steps": 2000, "seeds": range(0, 20, 2), "track": solved.track}
    runs = tr.sweep(solved.problem, solved.samples, tr.CSCGD(upsilon0=0.5), **options)
    assert runs["H0"].mean() < 0
    assert 0 < runs["F - F*"].mean() < 0.1


def test_a_plain_treatment_is_biased():
    """The variance of two samples is half of the variance: at the boundary a batch thinks that half of the level is left."""
    solved = NESTED["variance"]()
    plain, batches = batch_by_batch(solved, 2)
    of_batch = jax.jit(jax.vmap(lambda key: plain.sample_values(jnp.asarray(solved.x), batches.fn(key))[1][0]))
    h = of_batch(jax.random.split(jax.random.key(0), 4000))
    assert float(h.mean()) == pytest.approx(-0.25, abs=0.05)


def test_auto_looks_at_all_rows_and_tracks_streams():
    asked = Setting(tr.L2Ball(1.0, shape=3), rows=True, coordinates=3, constraints=1, nested=True)
    smooth, many = asked._replace(lacks=lambda: None), asked._replace(coordinates=501)
    for case, chosen in (smooth, "sqp"), (asked, "bundle"), (many, "svrg-csoa"), (asked._replace(rows=False), "cscgd"):
        method, why = automatic(case)
        assert method.name == chosen
    assert "functions of means" in why


@pytest.mark.slow
def test_a_fed_run_takes_the_steps_of_a_stream():
    solved = NESTED["variance"]()
    rows = jax.tree.map(np.asarray, solved.rows(801))
    run = tr.Online(solved.problem)
    for part in slice(0, 1), slice(1, 300), slice(300, 801):
        run.update({name: column[part] for name, column in rows.items()})
    assert (run.step, run.samples) == (400, 800)
    method = tr.CSCGD(schedule="measured", anytime=True)
    known = tr.minimize(solved.problem, tr.Stream(lambda: iter([rows])), method=method, steps=400, progress=False)
    np.testing.assert_array_equal(run.x, known.x)


# ---- data at hand --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("method", ["auto", "bundle", "svrg-csoa"])
def test_on_rows_the_answer_is_that_of_another_solver(name, method):
    found = on_rows(name, method)
    assert found["method"] == ("sqp" if method == "auto" else method)
    assert -1e-8 < found["relative gap"] <= 1e-6
    assert found["H"] <= 0


def kl_robust(radius):
    """The worst mean loss over all Q with KL(Q | P) <= radius, as a constraint; the temperature b = 1/a is a coordinate."""
    return tr.Problem(
        lambda z, theta: -jnp.dot(theta, z["x"]),
        lambda z, theta, inner: z["b"] * (radius + jnp.log(inner)),
        tr.Product({"x": tr.Simplex(shape=3), "b": tr.Box(0.05, 10.0, shape=1)}),
        inner=lambda z, theta: jnp.exp(-jnp.dot(theta, z["x"]) / z["b"][0]),
        levels=-0.03,
    )


def worst_mean(losses, radius):
    """By a search for the Q proportional to exp(losses/b) whose divergence is the radius."""

    def tilted(b):
        q = softmax(losses / b)
        return q, float(np.sum(q * np.log(q * len(q))))

    b = brentq(lambda b: tilted(b)[1] - radius, 0.02, 100.0)
    return float(tilted(b)[0] @ losses), b


def test_a_kl_robust_bound_is_the_worst_mean():
    x = np.array([0.2, 0.3, 0.5])
    worst, b = worst_mean(-ROWS @ x, 0.1)
    h = full_constraints(kl_robust(0.1), {"x": jnp.asarray(x), "b": jnp.array([b])}, ROWS)
    assert float(h[0]) == pytest.approx(worst + 0.03, rel=1e-9)


@pytest.mark.slow
def test_a_kl_robust_bound_is_kept_and_no_more():
    z = tr.minimize(kl_robust(0.1), ROWS, tol=1e-7, progress=False).x
    worst, b = worst_mean(-ROWS @ np.asarray(z["x"]), 0.1)
    assert worst == pytest.approx(-0.03, abs=1e-5)
    assert worst <= -0.03
    assert float(z["b"][0]) == pytest.approx(b, rel=1e-2)


@pytest.mark.slow
def test_an_output_of_cscgd_on_rows_is_pulled_to_a_feasible_one():
    solved = NESTED["entropic"]()
    rows = solved.rows(400)
    result = tr.minimize(solved.problem, rows, method=tr.CSCGD(upsilon0=0.0), steps=400, output="feasible")
    assert result.pull is not None
    assert float(full_constraints(solved.problem, result.x, rows)[0]) <= 0


def test_bounds_are_those_of_the_delta_method():
    problem, names = everything(), ["variance", "plain", "ratio"]
    found = bound_constraints(problem, jnp.asarray(X), ROWS, Terms(names, (None,) * 3, 0.95))
    s, a, b = 1.3 * ROWS @ X, (X[0] - ROWS[:, 0]) ** 2, np.exp(ROWS[:, 0])
    r = a.mean() / b.mean()
    for bound, influence in zip(
        found, ((s - s.mean()) ** 2 - 0.1, X[0] * ROWS[:, 0] - 0.2, r + (a - r * b) / b.mean() - 0.3), strict=True
    ):
        assert bound.kind == "asymptotic"
        assert bound.estimate == pytest.approx(influence.mean(), rel=1e-9)
        assert bound.upper == pytest.approx(float(studentised_upper(influence, 0.95)), rel=1e-9)
    with pytest.raises(ValueError, match="ranges were given, and the constraints of a nested problem"):
        bound_constraints(problem, jnp.asarray(X), ROWS, Terms(names, (Range(0.0, 1.0, False), None, None), 0.95))


@pytest.mark.slow
def test_the_check_looks_at_the_composition():
    """Each row's ratio is linear in x; that of the means is not convex."""
    problem = tr.Problem(
        lambda x, theta: x[0],
        tr.ratio_at_most(lambda x, theta: 1 + theta[0] * x[0], lambda x, theta: 1.5 + theta[1] * x[0]),
        tr.Box(-1.0, 1.0, shape=1),
        levels=0.5,
    )
    report = tr.check_problem(problem, np.random.default_rng(0).uniform([0.5, 0.2], 1.0, size=(200, 2)))
    (found,) = [finding for finding in report.findings if finding.what == "convexity"]
    assert not found.ok


# ---- refusals ------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_done_is_said():
    solved = NESTED["variance"]()
    problem, box = solved.problem, tr.Box(0.0, 1.0, shape=1)

    def scalar(x, theta):
        return theta[0] * x[0]

    nested, plain = {"inner": scalar, "domain": box}, EXACT["ball"]()
    of_nothing = tr.Problem(lambda x, theta, inner: inner, inner=lambda x, theta: (), domain=box)

    def run(problem=problem, data: Any = solved.samples, **options):
        return lambda: tr.minimize(problem, data, **options)

    cases = [
        (run(method="cscgd", steps=9, batch_size=(1, 2)), "expected one number"),
        (run(plain.problem, plain.samples, method=tr.CSCGD(schedule="measured"), steps=9), "is for nested problems"),
        (run(of_nothing, ROWS), "inner.x, theta. returns .*; expected arrays"),
        (lambda: tr.Online(problem, tr.CSOA(anytime=True)), "CSOA takes plain"),
        (lambda: tr.Online(problem, tr.CSCGD()), "the steps of CSCGD depend on how many there will be"),
        (
            lambda: tr.Online(problem, example={"z": ROWS[:0]}).certify(ranges=(0.0, 1.0)),
            "watched at all times, and the constraints of a nested problem",
        ),
        (lambda: problem.sample_values(X, {"z": X}), "one sample of a nested problem has no value"),
        (lambda: tr.Problem(scalar, **nested), "neither objective nor constraints has an argument `inner`"),
        (
            lambda: tr.Problem(lambda x, theta, inner: x, exact_constraints=lambda x: x, **nested),
            "given exact_constraints",
        ),
        (lambda: tr.Problem(scalar, domain=box, inner=3), "inner is 3; expected a function"),  # pyright: ignore
        (lambda: tr.lift_cvar(problem, 0.9, -1.0, 1.0), "lift_cvar: the problem is nested"),
        (lambda: tr.entropic_risk_at_most(scalar, 0.0), "sharpness is 0.0; expected more than zero"),
    ]
    for call, said in cases:
        with pytest.raises((TypeError, ValueError), match=said):
            call()


@pytest.mark.slow
def test_the_examples_of_the_page_run():
    page = Path(__file__).parents[2] / "docs" / "nested.md"
    namespace: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        exec(block, namespace)
    assert namespace["result"].method.name == "cscgd"
