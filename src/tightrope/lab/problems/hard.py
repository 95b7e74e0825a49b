"""What goes wrong in practice: a hundred constraints, scales far apart, and no feasible point at all."""

from functools import lru_cache, partial

import jax.numpy as jnp
import numpy as np

from tightrope.lab.problems.solved import Constants, Noise, Solved, linear, normals, polyhedral_margin, squared_distance
from tightrope.problem import Problem
from tightrope.sampling import Generator
from tightrope.sets import Box, L2Ball


@lru_cache
def many() -> Solved:
    """A hundred constraints: min |x - p|^2/2 s.t. G x <= b, x in [-1, 1]^20, where eight of the hundred are active.

    Built backwards: rows g_i of length 1, b = G x* plus slacks, p = x* + G' lambda*. The margin is a linear programme.
    """
    rng, n, size, active = np.random.default_rng(4), 100, 20, 8
    solution = rng.uniform(-0.6, 0.6, size=size)
    G = rng.normal(size=(n, size))
    G /= np.linalg.norm(G, axis=1, keepdims=True)
    dual, slack = np.zeros(n), rng.uniform(0.1, 1.0, size=n)
    dual[:active], slack[:active] = rng.uniform(0.2, 0.6, size=active), 0.0
    p, b = solution + G.T @ dual, G @ solution + slack
    reach, noise = np.abs(G).sum(axis=1), Noise(0.3, 0.1, 0.2)
    return Solved.under_noise(
        "many",
        Box(-1.0, 1.0, shape=size),
        squared_distance(p),
        linear(G, b),
        noise,
        x=solution,
        dual=dual,
        optimum=float(np.sum((solution - p) ** 2) / 2),
        slater=polyhedral_margin(G, b, [(-1.0, 1.0)] * size),
        constants=Constants.additive(
            noise,
            size=size,
            largest=size**0.5,
            D=2 * size**0.5,
            G_f=np.linalg.norm(1 + np.abs(p)),
            G_h=1.0,
            H=(reach + np.abs(b)).max(),
            L_f=1.0,
            mu=1.0,
        ),
    )


@lru_cache
def ill_scaled() -> Solved:
    """Scales from 1/100 to 100: min |x/s - p|^2/2 s.t. c_i (<g_i, x/s> - b_i) <= 0, |x_j| <= s_j, all three active.

    s = 10^(-2, -1.2, ..., 2) and c = (100, 1, 1/100). In y = x/s and without c this is a mild problem with multipliers
    (0.5, 0.3, 0.4); here they are (0.005, 0.3, 40), and the condition number is 1e8.
    """
    rng, size = np.random.default_rng(5), 6
    s, c = np.logspace(-2, 2, size), np.array([100.0, 1.0, 0.01])
    middle, mild = rng.uniform(-0.5, 0.5, size=size), np.array([0.5, 0.3, 0.4])
    G = rng.normal(size=(3, size))
    G /= np.linalg.norm(G, axis=1, keepdims=True)
    p, b = middle + G.T @ mild, G @ middle
    reach, noise = np.abs(G).sum(axis=1) + np.abs(b), Noise(0.3, 0.2, 0.2)

    def objective(x):
        return jnp.sum((x / jnp.asarray(s, x.dtype) - jnp.asarray(p, x.dtype)) ** 2) / 2

    def constraints(x):
        return jnp.asarray(c, x.dtype) * (jnp.asarray(G / s, x.dtype) @ x - jnp.asarray(b, x.dtype))

    def f(x, theta):
        return objective(x) + noise.slope * jnp.dot(theta["g"], x / jnp.asarray(s, x.dtype))

    def h(x, theta):
        wobble = noise.slopes * theta["w"] @ (x / jnp.asarray(s, x.dtype)) + noise.values * theta["v"]
        return constraints(x) + jnp.asarray(c, x.dtype) * wobble

    steepest, widest = np.linalg.norm((1 + np.abs(p)) / s), np.linalg.norm(1 / s)
    slopes = np.linalg.norm(G / s, axis=1)
    return Solved(
        "ill-scaled",
        Problem(f, h, Box(-s, s)),
        Generator(partial(normals, g=(size,), w=(3, size), v=(3,))),
        x=s * middle,
        dual=mild / c,
        optimum=float(np.sum((middle - p) ** 2) / 2),
        objective=objective,
        constraints=constraints,
        slater=polyhedral_margin(c[:, None] * G, c * b, [(-1.0, 1.0)] * size),
        constants=Constants(
            D=float(2 * np.linalg.norm(s)),
            G_f=float(steepest),
            G_h=float((c * slopes).max()),
            sigma_f=float(np.hypot(steepest, noise.slope * widest)),
            sigma_h=float((c * np.hypot(slopes, noise.slopes * widest)).max()),
            sigma_lam=float((c * np.sqrt(reach**2 + noise.slopes**2 * size + noise.values**2)).max()),
            L_f=float(s.min() ** -2),
            L_h=0.0,
            mu=float(s.max() ** -2),
        ),
        noise="Gaussian in slopes and values, in the scales of the coordinates and constraints",
    )


@lru_cache
def infeasible() -> Solved:
    """No feasible point: min |x - p|^2/2 s.t. 1/4 - <u_i, x> <= 0, |x| <= 1, for three unit vectors of sum 0 in the plane.

    The mean of the three H_i is 1/4 everywhere, so that some constraint is violated by at least 1/4; at the origin
    all are, by just that. There is no optimum: `x` is the origin and `dual` the weights 1/3 of the proof.
    """
    angles = np.pi / 2 + np.arange(3) * 2 * np.pi / 3
    u, p, noise = np.column_stack([np.cos(angles), np.sin(angles)]), np.array([0.5, 0.2]), Noise(0.5, 0.3, 0.2)
    return Solved.under_noise(
        "infeasible",
        L2Ball(1.0, shape=2),
        squared_distance(p),
        lambda x: 0.25 - jnp.asarray(u, x.dtype) @ x,
        noise,
        x=np.zeros(2),
        dual=np.full(3, 1 / 3),
        optimum=float("nan"),
        slater=-0.25,
        constants=Constants.additive(
            noise, size=2, largest=1.0, D=2.0, G_f=1 + np.linalg.norm(p), G_h=1.0, H=1.25, L_f=1.0, mu=1.0
        ),
    )
