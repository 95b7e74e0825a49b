"""Every method of the registry, whatever it is, and that of the guide: a new one needs nothing here."""

import re
from pathlib import Path
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slow import quick_first

import tightrope as tr
from studies import methods_table
from tightrope.loop.prepare import cost_of
from tightrope.loop.steps import Variant, start
from tightrope.problem.problem import n_constraints
from tightrope.problems import EXACT
from tightrope.sampling import Plan
from tightrope.tree import replace

GUIDE = Path(__file__).parents[2] / "docs" / "new_algorithm.md"


def from_the_guide():
    """The method of docs/new_algorithm.md, as it is printed there."""
    namespace: dict = {"__name__": "guide"}
    exec(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)[0], namespace)
    return namespace["Queue"]


METHODS = {name: kind for name, kind in tr.METHODS.items() if issubclass(kind, tr.Method)}
KINDS: dict[str, type[tr.Method]] = METHODS | {"queue": from_the_guide()}
STEPS = {"rows": 3_000, "refresh every step": 400, "stream": 40_000}


def fitted(kind, solved):
    """The problem as the method can have it: without constraints, or with exact ones."""
    if "unconstrained" in kind.needs:
        return tr.penalised(solved.problem, solved.dual)
    if "exact_constraints" in kind.needs:
        return replace(solved.problem, exact_constraints=solved.constraints)
    return solved.problem


def solved_for(kind):
    """A linear programme; a quadratic on the simplex for methods that need curvature, and for penalties, which a linear
    programme leaves without a unique solution."""
    return EXACT["simplex" if {"unconstrained", "curvature"} & kind.needs else "l1-lp"]()


def data_for(kind, solved, n):
    return solved.rows(n) if "rows" in kind.needs else solved.samples


def batch(kind, n):
    """A method's own choice where it has one."""
    own = kind().steps.batch(n)
    return own if own > 1 else 32 if "rows" in kind.needs else 4


def start_state(method, problem, steps=100):
    x = problem.domain.start()
    lam = jnp.zeros(n_constraints(problem, x, jax.tree.map(lambda a: a[0], one_batch(EXACT["simplex"](), 1))), x.dtype)
    return start(method, problem, x, lam, jnp.asarray(steps, jnp.int32), Variant()).state


def one_batch(solved, size=3, seed=0):
    buffer = solved.samples.open(Plan((seed,), 1, size)).take(0, 1)
    return jax.tree.map(lambda a: a[0, 0, 0], buffer.items)


def draws(method, theta):
    return theta if method.cost.samples == 1 else (theta,) * method.cost.samples


@tr.pytree
class Draw:
    """A sample that knows which of a step's draws it belongs to."""

    theta: Any
    which: int = tr.static(default=0)


def noting(differentiated, which):
    """x itself; when it is differentiated, the draw is noted."""

    @jax.custom_jvp
    def same(x):
        return x

    @same.defjvp
    def _(primals, tangents):  # pyright: ignore[reportUnusedFunction]
        differentiated.add(which)
        return primals[0], tangents[0]

    return same


OURS = {kind.name for kind in map(tr.__dict__.get, tr.__all__) if isinstance(kind, type) and kind in KINDS.values()}
OURS |= {"queue"}


# A run to the solution for each rival takes minutes in all, and belongs to `make verify`.
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in OURS else pytest.mark.slow) for n in KINDS])
def test_it_finds_the_solution(name):
    kind = KINDS[name]
    solved = solved_for(kind)
    problem, every_step = fitted(kind, solved), getattr(kind, "refresh_every", None) == 1
    length = "refresh every step" if every_step else "rows" if "rows" in kind.needs else "stream"
    data = data_for(kind, solved, n=4_000)
    options = {"batch_size": batch(kind, 4_000), "x0": np.full(10, 0.01) if name == "pfs" else None}
    result = tr.minimize(problem, data, method=kind(), steps=STEPS[length], record=0, **options)
    lagrangian = solved.objective(result.x) + jnp.dot(solved.dual, solved.constraints(result.x)) - solved.optimum
    assert -1e-9 <= float(lagrangian) < 0.02
    if "unconstrained" not in kind.needs:
        assert abs(float(solved.objective(result.x)) - solved.optimum) < 0.05
        assert float(jnp.max(solved.constraints(result.x))) <= 0.04  # of a finite sample's own optimum, for some
        np.testing.assert_allclose(result.x, solved.x, atol=0.1)
        if kind.facts.multipliers:
            np.testing.assert_allclose(result.dual, solved.dual, atol=0.12 if kind.facts.averages else 0.3)


@pytest.mark.parametrize("name", KINDS)
def test_a_step_keeps_dtypes_shapes_and_structure(name, dtype):
    kind, solved = KINDS[name], EXACT["simplex"]()
    method, problem = kind(), fitted(kind, solved)
    state = start_state(method, problem)
    after, info = jax.eval_shape(method.step, problem, state, draws(method, one_batch(solved)))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert info.f.dtype == info.h.dtype == info.lam.dtype == dtype


@pytest.mark.parametrize("name", KINDS)
def test_declared_cost_equals_counted_calls_and_compiled_side_by_side_equals_eager(name):
    """Every method is run for a few steps outside compiled code, on functions and a set that count."""
    calls, differentiated, Counting = {"objective": 0}, set(), counting_ball()

    def f(x, draw):
        calls["objective"] += 1
        return jnp.sum((noting(differentiated, draw.which)(x) - draw.theta) ** 2)

    def exact(x):
        return x[:1] - 0.5

    kind = KINDS[name]
    method = kind()
    constraints = None if "unconstrained" in kind.needs else lambda x, d: exact(noting(differentiated, d.which)(x))
    known = exact if "exact_constraints" in kind.needs else None
    problem = tr.Problem(f, constraints, Counting(1.0, shape=2), exact_constraints=known)
    first = method.init(problem, jnp.zeros(2), jnp.zeros(0 if constraints is None else 1), jnp.asarray(10))
    pair, state = tuple(Draw(jnp.ones((1, 2)), which) for which in range(max(1, method.cost.samples))), first
    theta = pair if method.cost.samples > 1 else pair[0]  # pyright: ignore[reportGeneralTypeIssues]
    with jax.disable_jit():
        for _ in range(5):
            state, _ = method.step(problem, state, theta)
    cost = method.steps.cost(5, problem.domain)
    gradients = max(calls["objective"], 5 * (len(differentiated) if method.cost.gradients else 0))
    assert (gradients, Counting.calls) == (cost.gradients, {"project": cost.projections, "lmo": cost.lmos})
    assert cost.samples == 5 * method.cost.samples

    def five_steps(state):
        return jax.lax.fori_loop(0, 5, lambda _, s: method.step(problem, s, theta)[0], state)

    twice = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), first)
    compiled = jax.jit(jax.vmap(five_steps))(twice)
    for a, both in zip(jax.tree.leaves(state), jax.tree.leaves(compiled), strict=True):
        for b in both:
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    assert bool(problem.domain.contains(state.x))
    assert bool(jnp.all(state.lam >= 0))
    if hasattr(state, "t"):
        assert state.t - first.t == 5  # a step is one step


def counting_ball(without_lmo=False):
    """A kind of ball that counts how often it is asked."""

    @tr.pytree
    class Counting(tr.L2Ball):
        calls: ClassVar = {"project": 0, "lmo": 0}
        has_lmo = not without_lmo

        def project(self, x):
            self.calls["project"] += 1
            return super().project(x)

        def lmo(self, g):
            self.calls["lmo"] += 1
            return super().lmo(g)

    return Counting


REFRESHING = [name for name, kind in KINDS.items() if issubclass(kind, tr.Refreshing)]


@pytest.mark.parametrize(
    ("name", "without_lmo"), [(n, w) for n in REFRESHING for w in (False, True) if not (w and "lmo" in KINDS[n].needs)]
)
def test_a_refresh_costs_what_it_declares(name, without_lmo):
    """Counted while it is traced: no projection and no linear minimisation stands in a loop."""
    kind, Counting = KINDS[name], counting_ball(without_lmo)
    problem = replace(on_a_ball(kind, 3, lambda x: x), domain=Counting(0.8, shape=3))
    method = kind()
    assert isinstance(method, tr.Refreshing)
    method = method.for_rows(len(THETA), 1)
    state = method.init(
        problem, jnp.zeros(3), jnp.zeros(n_constraints(problem, jnp.zeros(3), THETA[0])), jnp.asarray(10)
    )
    jax.eval_shape(lambda state: method.refresh(problem, state, jnp.asarray(THETA)), state)
    declared = method.steps.looks(1, len(THETA), problem.domain)
    assert Counting.calls == {"project": declared.projections, "lmo": declared.lmos}
    steps = 2 * (method.refresh_every or 1) + 1
    in_all, of_steps = cost_of(method, problem.domain, steps, 1, len(THETA)), method.steps.cost(steps)
    assert in_all.lmos - of_steps.lmos == 3 * declared.lmos
    assert in_all.projections - of_steps.projections == 3 * declared.projections


MARGINS = [name for name, kind in KINDS.items() if kind.facts.margin and kind.facts.multipliers]


@pytest.mark.parametrize("name", quick_first(MARGINS, ["csoa", "cfw-csoa", "kim-lee", "cscgd"]))
def test_a_tightening_is_what_it_declares(name):
    """From multipliers of zero a step on constant constraints raises them where these and the tightening are above zero."""
    kind, steps, theta = KINDS[name], 50, jnp.ones((8, 2))
    method = kind(**{str(kind.facts.margin): 0.3})
    method = method.for_rows(8, 1) if isinstance(method, tr.Refreshing) else method
    upsilon = method.steps.tightening(steps)
    assert upsilon > 0

    @jax.jit
    def after(value):
        problem = tr.Problem(
            lambda x, theta: jnp.sum((x - theta) ** 2), lambda x, theta: value + 0 * x[:1], tr.L2Ball(1.0, shape=2)
        )
        state = method.init(problem, jnp.zeros(2), jnp.zeros(1), jnp.asarray(steps))
        if isinstance(method, tr.Refreshing):
            state = method.refresh(problem, state, theta)
        seen = method.step(problem, state, draws(method, theta[:1]))[0]  # a method that tracks h has a value now
        last = seen._replace(t=jnp.full_like(state.t, steps), lam=jnp.zeros(1))
        return method.step(problem, last, draws(method, theta[:1]))[0].lam

    assert after(-0.99 * upsilon) > 0
    assert after(-1.01 * upsilon) == 0


@pytest.mark.parametrize("name", KINDS)
def test_it_declares_what_it_is(name):
    kind = KINDS[name]
    method = kind()
    if not jax.tree.leaves(method):  # it measures its scales, unless it is given coefficients
        method = kind(**{kind.tuned[0]: 1.0})
    assert jax.tree.leaves(method)
    assert all(isinstance(leaf, float) for leaf in jax.tree.leaves(method))  # a new value compiles nothing
    assert kind.tuned
    assert all(isinstance(getattr(method, coefficient), float) for coefficient in kind.tuned)
    assert kind.facts.margin is None or isinstance(getattr(method, kind.facts.margin), float)
    assert {"project", "lmo"} & kind.needs
    known = list(kind.facts.published_by_steps.values())
    assert kind.facts.published in (known or [kind.facts.published])
    assert all(rates.standing == "proven" for rates in (kind.facts.published, *known[:1]))
    # the default is said to be another
    assert not known or (known[0] != kind.facts.published and kind.facts.published.proof)


def test_the_page_of_methods_says_what_they_declare():
    """Costs, rates, proofs and coefficients: one that is changed is changed in both places or in none."""
    page = GUIDE.with_name("methods.md")
    assert page.read_text() == methods_table.page(), "run python -m studies.methods_table"


# ---- points that are trees ------------------------------------------------------------------------------------------


def three_steps(method, problem, x, theta):
    """The state after three steps from x, on one batch."""
    lam = jnp.full(n_constraints(problem, x, theta[0]), 0.3)
    state, batch = method.init(problem, x, lam, jnp.asarray(10)), draws(method, theta)

    def step(_, state):
        ready = method.refresh(problem, state, theta) if isinstance(method, tr.Refreshing) else state
        return method.step(problem, ready, batch)[0]

    return jax.jit(lambda state: jax.lax.fori_loop(0, 3, step, state))(state)


def on_a_ball(kind, shape, flat):
    """A small problem for points of any shape, which `flat` makes vectors of."""

    def exact(x):
        return flat(x)[:1] - 0.1

    return tr.Problem(
        lambda x, theta: jnp.sum((flat(x) - theta) ** 2),
        None if "unconstrained" in kind.needs else lambda x, theta: exact(x) + 0.1 * theta[:1],
        tr.L2Ball(0.8, shape=shape),
        exact_constraints=exact if "exact_constraints" in kind.needs else None,
    )


THETA = np.random.default_rng(0).normal(0.5, 1.0, size=(4, 3))
TREE = {"b": np.asarray(0.1), "w": np.array([-0.2, 0.3])}


@pytest.mark.parametrize("name", KINDS)
def test_a_step_keeps_the_structure_of_a_point_that_is_a_tree(name):
    kind, x = KINDS[name], jax.tree.map(jnp.asarray, TREE)
    method, problem = kind(), on_a_ball(kind, {"b": (), "w": 2}, lambda x: tr.tree.ravel(x)[0])
    lam = jnp.zeros(n_constraints(problem, x, THETA[0]))
    state = jax.eval_shape(lambda x: method.init(problem, x, lam, jnp.asarray(10)), x)
    if isinstance(method, tr.Refreshing):
        refreshed = jax.eval_shape(lambda state: method.refresh(problem, state, jnp.asarray(THETA)), state)
        assert jax.tree.structure(refreshed) == jax.tree.structure(state)
    after, info = jax.eval_shape(lambda state: method.step(problem, state, draws(method, jnp.asarray(THETA))), state)
    assert after == state  # the same tree of shapes and dtypes
    assert jax.tree.structure(info.x) == jax.tree.structure(x)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in OURS else pytest.mark.slow) for n in KINDS])
def test_a_point_that_is_a_tree_goes_where_the_same_point_as_a_vector_goes(name):
    method, theta = KINDS[name](), jnp.asarray(THETA)
    tree = on_a_ball(KINDS[name], {"b": (), "w": 2}, lambda x: tr.tree.ravel(x)[0])
    as_tree = three_steps(method, tree, jax.tree.map(jnp.asarray, TREE), theta)
    as_vector = three_steps(method, on_a_ball(KINDS[name], 3, lambda x: x), tr.tree.ravel(TREE)[0], theta)
    np.testing.assert_allclose(tr.tree.ravel(as_tree.x)[0], as_vector.x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(as_tree.lam, as_vector.lam, rtol=1e-9, atol=1e-12)


# ---- coefficients ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS.values(), *(k for k in tr.METHODS.values() if issubclass(k, tr.Solver))])
def test_every_coefficient_is_checked(kind):
    for coefficient in {*kind.tuned, *kind.facts.positive, *kind.facts.below_one}:
        for wrong in (-1.0, np.nan, *([0.0] if coefficient in kind.facts.positive else [])):
            with pytest.raises(ValueError, match=f"{kind.__name__}: {coefficient} is .*expected"):
                kind(**{coefficient: wrong})
        for wrong in ("much", *([None] if getattr(kind, coefficient) is not None else [])):
            with pytest.raises(TypeError, match=f"{coefficient} is {wrong!r}; expected a number"):
                kind(**{coefficient: wrong})


def test_a_subclass_of_the_user_is_checked_like_a_built_in():
    @tr.pytree
    class Mine(tr.CSOA):
        beta: float = 0.5
        kind: Literal["a", "b"] = tr.static(default="a")

        facts = tr.Facts(below_one=("beta",))

    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"eta0": -1.0}, "Mine: eta0 is -1.0; expected finite and not negative"),
        ({"beta": 1}, "Mine: beta is 1.0; expected less than 1"),
        ({"kind": "c"}, "Mine: kind is 'c'; expected one of a, b"),
        ({"anytime": "yes"}, "Mine: anytime is 'yes'; expected one of False, True"),
    ]
    for wrong, said in mistakes:
        with pytest.raises(ValueError, match=said):
            Mine(**wrong)


def test_a_fact_that_stands_by_itself_is_refused_where_it_is_written():
    with pytest.raises(TypeError, match="Old says `margin` by itself; expected facts = Facts"):

        class Old(tr.Method):  # pyright: ignore[reportUnusedClass]
            margin = "upsilon0"


def test_coefficients_levels_and_params_may_be_traced():
    theta = jnp.array([[1.0, 0.5]])

    def after_a_step(eta0, level=0.2, weight=1.0, radius=1.0):
        problem = tr.Problem(
            lambda x, theta, w: w * jnp.sum((x - theta) ** 2), lambda x, theta, w: x[:1], tr.L2Ball(radius, shape=2),
            levels=level, params=weight,
        )  # fmt: skip
        method = tr.CSOA(eta0=eta0)
        state = method.init(problem, jnp.array([0.3, 0.1]), jnp.array([0.5]), jnp.asarray(100))
        state = method.step(problem, method.step(problem, state, theta)[0], theta)[0]
        return jnp.sum(state.x) + state.lam[0]

    etas = jnp.array([0.1, 0.7])
    np.testing.assert_allclose(jax.vmap(after_a_step)(etas), [after_a_step(float(eta)) for eta in etas], rtol=1e-12)
    for place in range(4):  # derivatives with respect to each, against differences
        at: Any = [0.7, 0.2, 1.0, 1.0]

        def along(value, place=place, at=at):
            given = [*at[:place], value, *at[place + 1 :]]
            return after_a_step(given[0], given[1], given[2], given[3])

        difference = (along(at[place] + 1e-6) - along(at[place] - 1e-6)) / 2e-6
        np.testing.assert_allclose(jax.grad(along)(at[place]), difference, rtol=1e-5, atol=1e-8)


# ---- outputs --------------------------------------------------------------------------------------------------------


def test_a_mean_that_is_not_kept_is_refused():
    solved = EXACT["simplex"]()
    data = solved.rows(50)
    with pytest.raises(ValueError, match="CFWCSOA keeps no mean of its iterates"):
        tr.minimize(solved.problem, data, method="cfw-csoa", steps=3, output="average")
    seen = []
    result = tr.minimize(solved.problem, data, method="cfw-csoa", steps=3, callback=seen.append)
    assert result.output == "last"
    assert all(at.average is None for at in seen)
    with pytest.raises(ValueError, match="CFWCSOA keeps no mean of its iterates; expected `x`"):
        _ = result.average
    run = tr.Online(solved.problem, tr.METHODS["mfw-csoa"]())
    run.update(data)
    with pytest.raises(ValueError, match="MFWCSOA keeps no mean"):
        _ = run.average
    np.testing.assert_array_equal(run.x, run.last)


# ---- the method of the guide ----------------------------------------------------------------------------------------


def test_the_guide_is_short():
    block = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)[0]
    written = [line for line in block.split("import tightrope as tr\n")[1].splitlines() if line.strip()]
    assert len(written) <= 25


def test_its_method_is_csoa_without_regulariser_and_tightening():
    solved = EXACT["simplex"]()
    same = tr.CSOA(eta0=1.0, delta=0.0, upsilon0=0.0)
    ours, theirs = (
        tr.minimize(solved.problem, solved.samples, method=method, steps=200) for method in (KINDS["queue"](), same)
    )
    np.testing.assert_allclose(ours.average, theirs.average, rtol=1e-12)
