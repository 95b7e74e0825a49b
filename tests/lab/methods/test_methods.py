"""All methods of others: any points, any precision, no constraints, and the coefficients that they divide by."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightrope as tr
from tightrope.tree import astype

KINDS = {
    name: kind
    for name, kind in tr.METHODS.items()
    if kind.__module__.startswith("tightrope.lab.") and issubclass(kind, tr.Method)
}


@pytest.mark.parametrize("n", [0, 3])
@pytest.mark.parametrize("name", KINDS)
def test_points_are_trees_float32_stays_and_there_may_be_no_constraints(name, n):
    """Shapes and dtypes only: nothing is compiled. Double precision is on."""
    kind = KINDS[name]

    def values(x):
        return jnp.stack([*[k * x["b"] + jnp.sum(x["w"]) for k in range(n)], x["b"]])[:n]

    domain = tr.L2Ball(1.0, shape={"w": (2, 3), "b": ()})
    known = values if "exact_constraints" in kind.needs else None
    problem = tr.Problem(
        lambda x, theta: jnp.sum(x["w"] * theta) + x["b"] ** 2,
        lambda x, theta: values(x),
        domain,
        exact_constraints=known,
    )
    x, method, theta = domain.start(jnp.float32), astype(kind(), jnp.float32), jnp.ones((4, 2, 3), jnp.float32)

    def run(x):
        state = method.init(problem, x, jnp.zeros(n, jnp.float32), jnp.asarray(10, jnp.int32))
        ready = method.refresh(problem, state, theta) if isinstance(method, tr.Refreshing) else state
        draws = (theta,) * kind.cost.samples if kind.cost.samples > 1 else theta
        return state, *method.step(problem, ready, draws)

    state, after, info = jax.eval_shape(run, x)
    assert after == state  # the same tree of shapes and dtypes
    assert {v.dtype for v in jax.tree.leaves((info.x, info.f, info.h, info.lam))} == {np.dtype("float32")}
    assert jax.tree.structure(info.x) == jax.tree.structure(x)


@pytest.mark.parametrize(
    ("name", "coefficient", "wrong", "expected"),
    [
        ("slpmm", "alpha0", 0, "more than zero"),
        ("conex", "tau0", 0, "more than zero"),
        ("aprid", "beta1", 1.0, "less than 1"),
        ("aprid", "clip", 0, "more than zero"),
        ("jenatton", "r0", 0, "more than zero"),
        ("mirror-sa", "dual_radius", 0, "more than zero"),
        ("opdmd", "v0", 0, "more than zero"),
        ("nupi", "nu", 1, "less than 1"),
        ("kim-lee", "alpha0", 0, "more than zero"),
        ("g-oco", "v0", 0, "more than zero"),
        ("g-oco", "alpha0", 0, "more than zero"),
        ("sfw", "m0", 0, "more than zero"),
        ("storm", "w", 0, "more than zero"),
        ("coexcg", "beta", 0, "more than zero"),
        ("affine-fw", "mu0", 0, "more than zero"),
    ],
)
def test_what_is_divided_by_is_not_zero(name, coefficient, wrong, expected):
    with pytest.raises(ValueError, match=f"{KINDS[name].__name__}: {coefficient} is .*; expected {expected}"):
        KINDS[name](**{coefficient: wrong})
