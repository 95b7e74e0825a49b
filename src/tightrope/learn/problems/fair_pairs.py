"""Fair classification from a stream, where the mean of the sensitive attribute is not known: samples are groups of rows.

For two independent rows, (s - s')(z - z')/2 has the covariance of s and the score z as its mean, with no mean of s in it.
The mean over all pairs of a group of m rows is the sample covariance with m - 1, and its noise beyond that of a known mean
falls like 1/(m - 1). Weights and the notion of fairness enter by a factor u of each row: E u u' (q - c) <= 0 says the same
of the weighted covariance, and needs no normalisation that a stream could not give.
"""

from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from tightrope.learn.fairness.notions import NOTIONS, owners
from tightrope.learn.fairness.sensitive import Sensitive
from tightrope.learn.loss import LOSS
from tightrope.learn.problems.fair import columns_of, covariance_names, levels_of, penalty
from tightrope.problem import Problem
from tightrope.sets import L2Ball
from tightrope.tree import Array, Tree


def paired_loss(x: Array, theta: Tree, params: Tree) -> Array:
    """The mean of the rows' weights times losses, plus l2/2 |x|^2 over penalised coefficients."""
    features, label, weight, _ = theta
    loss = jnp.mean(weight * LOSS.traced(label * (features @ x)))
    return loss + penalty(x, params)


def paired_covariance(x: Array, theta: Tree, params: Tree) -> Array:
    """The mean over pairs of u u' (q - c) and u u' (-q - c), q = (s - s')(z - z')/2 for each sensitive column; 2K values,
    or twice as many where two labels are told apart.

    Without a loop over pairs: the sum over both orders of u u' q is (sum u)(sum u s z) - (sum u s)(sum u z).
    """
    features, label, weight, s = cast(tuple[Array, Array, Array, Array], theta)
    m, k = s.shape
    u = weight[None] * jnp.where(label[None] > 0, params["counted"][:, 1:], params["counted"][:, :1])  # (labels, m)
    z, s = u * (features @ x)[None], s - s[:1]  # differences are all that counts, and no digits are lost if s is large
    total = u.sum(axis=1, keepdims=True)
    q = jnp.ravel(total * (z @ s) - (u @ s) * z.sum(axis=1, keepdims=True)) / (m * (m - 1))
    both = jnp.repeat(total[:, 0] ** 2 - jnp.sum(u * u, axis=1), k) / (m * (m - 1))
    return jnp.concatenate([q, -q]) - jnp.tile(both, 2) * params["c"]


def paired_classification(
    d: int, sensitive: Sensitive | None, threshold: Any, radius: float, *, notion: str, l2: float, intercept: bool
) -> Problem:
    """The problem of `fair_classification` for samples that are groups of m >= 2 rows: arrays (m, d), (m,), (m,) and
    (m, K) of features, labels -1 or +1, weights and sensitive columns.

    Args:
        d: the number of features, with the intercept; it is the last where there is one, and has no penalty.
        sensitive: the attributes, as `read_sensitive` made them of some rows; None for no constraint.
        threshold, radius, notion, l2: as for `fair_classification`.
        intercept: whether the last feature is an intercept.

    Example:
        >>> from tightrope.problems import paired_classification
        >>> problem = paired_classification(3, None, 0.1, 10.0, notion="demographic_parity", l2=0.0, intercept=True)
        >>> problem.domain.start().shape
        (3,)
    """
    penalised = np.ones(d)
    penalised[d - 1 :] = 0.0 if intercept else 1.0
    # whether a negative row counts, and a positive one
    counted = np.stack([owners(label, np.array([False, True])) for label in NOTIONS[notion]])
    params = {"l2": float(l2), "penalised": penalised, "counted": counted.astype(float)}
    domain = L2Ball(radius, shape=d)
    if sensitive is None:
        return Problem(paired_loss, None, domain, params=params)
    levels = levels_of(threshold, sensitive, notion)
    names = covariance_names(columns_of(sensitive, notion))
    return Problem(paired_loss, paired_covariance, domain, params=params | {"c": np.tile(levels, 2)}, names=names)
