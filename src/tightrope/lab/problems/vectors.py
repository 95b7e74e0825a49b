"""Vectors under quadratic constraints, with solutions in closed form: least squares on a ball, and ellipsoids in a box."""

from functools import lru_cache, partial

import jax.numpy as jnp
import numpy as np

from tightrope.lab.problems.solved import Constants, Noise, Solved, normals, squared_distance
from tightrope.problem import Problem
from tightrope.sampling import Generator
from tightrope.sets import Box, L2Ball


@lru_cache
def least_squares() -> Solved:
    """Least squares under a quadratic constraint: min E (<phi, x> - y)^2/2 s.t. |x|^2/2 <= 1/2, |x| <= 2.

    phi ~ N(0, A) with A = diag(1/4, 1/2, 1, 1) and y = <phi, t> + e/2 with e ~ N(0, 1), so that
    F(x) = <x - t, A (x - t)>/2 + 1/8 is strongly convex. With t = x* + A^-1 x*/2, the conditions A (x* - t) + lambda x* = 0
    hold at a unit vector x* with lambda = 1/2.
    """
    a, solution = np.array([0.25, 0.5, 1.0, 1.0]), np.array([0.4, -0.4, 0.8, 0.2])
    target, furthest = solution + solution / a / 2, 2 + np.linalg.norm(solution + solution / a / 2)
    # E |phi|^2 <phi, z>^2 = tr A <z, Az> + 2 |Az|^2 <= fourth |z|^2 for a Gaussian phi
    fourth = a.sum() * a.max() + 2 * a.max() ** 2

    def f(x, theta):
        phi = jnp.asarray(np.sqrt(a), x.dtype) * theta["g"]
        return (jnp.dot(phi, x - jnp.asarray(target, x.dtype)) - theta["e"] / 2) ** 2 / 2

    def h(x, theta):
        return (jnp.dot(x, x) / 2 + 0.3 * jnp.dot(theta["w"], x) + 0.2 * theta["v"] - 0.5)[None]

    return Solved(
        "least-squares",
        Problem(f, h, L2Ball(2.0, shape=4)),
        Generator(partial(normals, g=(4,), e=(), w=(4,), v=())),
        x=solution,
        dual=np.array([0.5]),
        optimum=float(np.sum(solution**2 / a) / 8 + 1 / 8),
        objective=lambda x: jnp.dot(jnp.asarray(a, x.dtype), (x - jnp.asarray(target, x.dtype)) ** 2) / 2 + 1 / 8,
        constraints=lambda x: (jnp.dot(x, x) / 2 - 0.5)[None],
        slater=0.5,
        constants=Constants(
            D=4.0,
            G_f=float(furthest),
            G_h=2.0,
            sigma_f=float(np.sqrt(fourth * furthest**2 + a.sum() / 4)),
            sigma_h=(4 + 0.09 * 4) ** 0.5,
            sigma_lam=(1.5**2 + 0.09 * 4 + 0.04) ** 0.5,
            L_f=float(np.sqrt(fourth)),
            L_h=1.0,
            mu=0.25,
        ),
        noise="a random row of a regression, so that noise grows with the residual; Gaussian in the constraint",
    )


@lru_cache
def box_qcqp() -> Solved:
    """Three ellipsoids in a box: min |x - p|^2/2 s.t. <x, Q_i x>/2 <= r_i, x in [-1, 1]^4.

    Built backwards: two ellipsoids pass through x*, the third leaves room, and the last coordinate is at its bound, which
    holds it by a force of 0.3. All are centred at the origin, where the margin is the smallest r_i.
    """
    rng, size = np.random.default_rng(1), 4
    solution, dual = np.array([0.5, -0.3, 0.2, 1.0]), np.array([0.6, 0.4, 0.0])
    roots = rng.normal(size=(3, size, size)) / 2
    Q = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(size)
    r = np.einsum("j,ijk,k->i", solution, Q, solution) / 2 + np.array([0.0, 0.0, 0.4])
    force = np.array([0.0, 0.0, 0.0, 0.3])
    p = solution + np.einsum("i,ijk,k->j", dual, Q, solution) + force
    top, noise = np.linalg.eigvalsh(Q)[:, -1], Noise(0.5, 0.3, 0.2)

    def constraints(x):
        return jnp.einsum("j,ijk,k->i", x, jnp.asarray(Q, x.dtype), x) / 2 - jnp.asarray(r, x.dtype)

    return Solved.under_noise(
        "box-qcqp",
        Box(-1.0, 1.0, shape=size),
        squared_distance(p),
        constraints,
        noise,
        x=solution,
        dual=dual,
        optimum=float(np.sum((solution - p) ** 2) / 2),
        slater=float(r.min()),
        constants=Constants.additive(
            noise,
            size=size,
            largest=2.0,
            D=4.0,
            G_f=np.linalg.norm(1 + np.abs(p)),
            G_h=2 * top.max(),
            H=np.maximum(r, 2 * top - r).max(),
            L_f=1.0,
            L_h=top.max(),
            mu=1.0,
        ),
    )
