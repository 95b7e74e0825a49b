"""Matrices, for projection-free methods: a density matrix and a matrix of low rank, both in closed form."""

from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from tightrope.lab.problems.solved import Constants, Noise, Solved, squared_distance
from tightrope.problem import Problem
from tightrope.sets import NuclearBall, Spectraplex


@lru_cache
def spectraplex() -> Solved:
    """The nearest density matrix under a linear constraint: min |X - P|^2/2 s.t. <A, X> <= b, X psd of trace 1, 5 x 5.

    Built backwards from X* of rank 2: with P = X* + lambda A - S and b = <A, X*>, the Lagrangian's gradient at X* is S, psd
    and orthogonal to X*, so that <S, X> is smallest at X*. The margin is b less the smallest eigenvalue of A.
    """
    rng, size, dual = np.random.default_rng(2), 5, np.array([0.5])
    vectors = np.linalg.qr(rng.normal(size=(size, size)))[0]
    solution = (vectors * [0.6, 0.4, 0.0, 0.0, 0.0]) @ vectors.T
    S = (vectors * [0.0, 0.0, 0.2, 0.3, 0.4]) @ vectors.T
    A = rng.normal(size=(size, size))
    A = (A + A.T) / 4
    P, b = solution + dual[0] * A - S, float(np.vdot(A, solution))
    low, high = np.linalg.eigvalsh(A)[[0, -1]]
    noise = Noise(0.3, 0.2, 0.2)
    return Solved.under_noise(
        "spectraplex",
        Spectraplex(shape=size),
        squared_distance(P),
        lambda x: (jnp.vdot(jnp.asarray(A, x.dtype), x) - b)[None],
        noise,
        x=solution,
        dual=dual,
        optimum=float(np.sum((solution - P) ** 2) / 2),
        slater=float(b - low),
        constants=Constants.additive(
            noise,
            size=size**2,
            largest=1.0,
            D=2**0.5,
            G_f=np.sqrt(1 - 2 * np.linalg.eigvalsh(P)[0] + np.sum(P**2)),  # at q q', the farthest from P
            G_h=np.linalg.norm(A),
            H=max(high - b, b - low),
            L_f=1.0,
            mu=1.0,
        ),
        noise="Gaussian in slopes and values; gradients are not symmetric",
    )


@lru_cache
def completion() -> Solved:
    """A matrix of low rank, entry by entry: min |X - P|^2/2 s.t. <A, X> <= b, the singular values of X at most 2 in sum.

    X is 6 x 4. A sample is one entry, each as likely as any other: f = 12 (X_ij - P_ij)^2 and h = 24 A_ij X_ij - b.
    Built backwards from X* = U diag(1.2, 0.8) V' on the boundary: P = X* + lambda A + 0.3 (U V' + W), where W is
    orthogonal to U and V with singular values of at most 1. The margin is b + 2 |A|, in the spectral norm.
    """
    rng, shape, radius, dual = np.random.default_rng(3), (6, 4), 2.0, np.array([0.4])
    U, V = (np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in shape)
    solution = (U[:, :2] * [1.2, 0.8]) @ V[:, :2].T
    normal = 0.3 * (U * [1.0, 1.0, 0.5]) @ V.T
    A = rng.normal(size=shape) / 4
    P, b, entries = solution + dual[0] * A + normal, float(np.vdot(A, solution)), solution.size
    i, j = np.divmod(np.arange(entries, dtype=np.int32), np.int32(shape[1]))
    table = {"i": i, "j": j, "p": P.ravel(), "a": A.ravel()}
    norm_A, norm_P = (float(np.linalg.norm(M, 2)) for M in (A, P))
    furthest = np.sqrt(radius**2 + 2 * radius * norm_P + np.sum(P**2))
    square = entries * np.max(A**2) * radius**2 + 2 * abs(b) * radius * norm_A + b**2  # >= E h^2

    def f(x, theta):
        return entries * (x[theta["i"], theta["j"]] - theta["p"]) ** 2 / 2

    def h(x, theta):
        return (entries * theta["a"] * x[theta["i"], theta["j"]] - b)[None]

    return Solved.of_table(
        "completion",
        Problem(f, h, NuclearBall(radius, shape=shape)),
        table,
        x=solution,
        dual=dual,
        optimum=float(np.sum((solution - P) ** 2) / 2),
        slater=b + radius * norm_A,
        constants=Constants(
            D=2 * radius,
            G_f=float(furthest),
            G_h=float(np.linalg.norm(A)),
            sigma_f=float(np.sqrt(entries) * furthest),
            sigma_h=float(np.sqrt(entries) * np.linalg.norm(A)),
            sigma_lam=float(np.sqrt(square)),
            L_f=float(np.sqrt(entries)),
            L_h=0.0,
            mu=1.0,
        ),
        noise="one entry of the matrix at a time",
    )
