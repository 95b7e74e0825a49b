"""`tr.certify` attacked: with nothing given, with ranges, on rows that depend on each other, on copies, at all times.

A law is a table of atoms with probabilities, so that the truth of any h is a finite sum; every constraint is set a hair
below its mean, where it is violated, so that each certificate that holds is false. Constraints are functions of this module,
with their numbers in `params`: a few shapes, a few programs.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from studies.adverse.search import Promise

CONFIDENCE = 0.95
ATOMS = 4000
SIZES = (20, 60, 200, 1000)  # of held-out rows: few shapes
X = np.full(2, 0.5)


class Law(NamedTuple):
    """What rows are drawn from, and what is asked of them."""

    form: str  # of h
    tail: str  # of its number
    rare: float  # probability of its rare event
    n: int
    scale: float
    rows: str = "independent"  # how rows depend on each other, or are copied
    length: float = 1.0  # of what is alike, in rows; or how often a row is copied
    seed: int = 0

    def __str__(self) -> str:
        base = f"{self.form} of {self.tail} times {self.scale:.2g}, rare event {self.rare:.2g}, {self.n} rows"
        return base if self.rows == "independent" else f"{base}, {self.rows} ({self.length:.2g})"


# ---- constraints -------------------------------------------------------------------------------------------------------

Row = dict[str, Any]
Numbers = Any


def _f(x: Any, theta: Row, p: Numbers) -> Any:
    return x[0]


def _event(theta: Row) -> Any:
    return theta["status"] == -1


def _either(which: Any, one: Any, other: Any) -> Any:
    return jnp.where(which, one, other)


FORMS: dict[str, Callable[[Any, Row, Numbers], Any]] = {
    "an equality": lambda x, t, p: jnp.stack([_either(_event(t), p[0], 0.0)]),
    "two equalities": lambda x, t, p: jnp.stack([1.0 * (t["country"] == 7) * (t["status"] < 0)]),
    "a square by a flag": lambda x, t, p: jnp.stack([t["z"] ** 2 * (t["flag"] == 1.0)]),
    "a clip": lambda x, t, p: jnp.clip(t["z"], -1.0, p[0])[None],
    "a tanh": lambda x, t, p: jnp.tanh(t["z"] * x[0] - p[1])[None],
    "two costs": lambda x, t, p: jnp.stack([_either(t["z"] > p[1], p[0], -1.0)]),
    "a sigmoid by an event": lambda x, t, p: jnp.stack([jax.nn.sigmoid(t["z"]) * _event(t)]),
    "a number": lambda x, t, p: t["z"][None] * x[0],
    "a hinge": lambda x, t, p: jnp.maximum(1 - t["z"], 0.0)[None],
    "a table": lambda x, t, p: (jax.nn.one_hot(t["country"], 10) @ (p[2:] * x[0]))[None],
    "several": lambda x, t, p: jnp.stack([1.0 * (t["z"] > p[1]), -1.0 * (t["z"] > p[1]), 1.0 * _event(t)]),
    "a rare number": lambda x, t, p: jnp.stack([_either(_event(t), t["z"], -x[0])]),
    "one that is known": lambda x, t, p: jnp.stack([1.0 * (t["z"] > p[1]), x[0] * p[0]]),
}
BOUNDED = ["an equality", "a clip", "a tanh", "two costs", "a sigmoid by an event", "a table", "several"]
RANGES = {"a tanh": (-1.0, 1.0), "a sigmoid by an event": (0.0, 1.0)}
TAILS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
    "lognormal": lambda rng, n: np.exp(2 * rng.normal(size=n)) / 7 - 1,
    "Pareto": lambda rng, n: rng.pareto(1.1, n) / 5 - 1,
    "minus Pareto": lambda rng, n: 1 - rng.pareto(1.1, n) / 5,
    "t": lambda rng, n: rng.standard_t(2, n),
    "lottery": lambda rng, n: np.where(rng.random(n) < 0.002, 200.0, -0.4) + 0.01 * rng.normal(size=n),
    "outliers": lambda rng, n: np.where(rng.random(n) < 0.003, 30.0, rng.normal(size=n)),
    "lumps": lambda rng, n: np.round(rng.normal(size=n)),
    "two lumps": lambda rng, n: np.where(rng.random(n) < 0.5, -1.0, 1.0) + 1e-3 * rng.normal(size=n),
}
DEPENDENT = ["in time", "a chain", "repeated", "sorted", "in groups", "in seasons", "in regimes"]
COPIED = ["all copied", "the safe copied", "a class drawn again", "joined", "half copied"]


@functools.cache
def _problem(form: str) -> tr.Problem:
    return tr.Problem(_f, FORMS[form], tr.Box(0.0, 1.0, shape=2), levels=0.0, params=np.zeros(12))


class Table(NamedTuple):
    """Atoms, their probabilities, and the constraint at each of them."""

    atoms: Row
    shares: np.ndarray
    params: np.ndarray
    h: np.ndarray
    levels: np.ndarray


@functools.lru_cache(4)
def _table(law: Law) -> Table:
    rng = np.random.default_rng(law.seed)
    z = law.scale * TAILS[law.tail](rng, ATOMS)
    event = np.arange(ATOMS) < ATOMS // 10  # as many atoms as that share the rare event's probability
    shares = np.where(event, law.rare / event.sum(), (1 - law.rare) / (~event).sum())
    atoms = {
        "z": z.astype(np.float32),
        "status": np.where(event, -1, rng.integers(0, 5, ATOMS)).astype(np.int32),
        "flag": event.astype(np.float32),
        "country": rng.integers(0, 10, ATOMS).astype(np.int32),
    }
    params = np.concatenate(
        [[rng.uniform(0.5, 5), float(np.quantile(z, rng.uniform(0.02, 0.98)))], rng.normal(size=10)]
    )
    fn = jax.jit(jax.vmap(lambda row, p: FORMS[law.form](jnp.asarray(X), row, p), (0, None)))
    h = np.asarray(fn(atoms, jnp.asarray(params)), float)
    mean, spread = shares @ h, np.sqrt(shares @ (h - shares @ h) ** 2)
    levels = mean - 1e-6 * np.maximum(spread, 1e-3)
    if h.shape[1] > 1:  # one at its level, the others far inside
        levels[1:] = mean[1:] + 10 * np.maximum(spread[1:], 1e-3)
    return Table(atoms, shares, params, h, levels)


def _draw(law: Law, rng: np.random.Generator) -> np.ndarray:
    """Numbers of atoms, a row each."""
    table, n, length = _table(law), law.n, max(int(law.length), 1)
    one = functools.partial(rng.choice, ATOMS, p=table.shares)
    stay = np.exp(-1 / law.length)
    if law.rows in ("independent", "at all times"):
        return one(size=n)
    if law.rows == "sorted":
        drawn = one(size=n)
        return drawn[np.argsort(table.h[drawn, 0], kind="stable")[:: 1 if law.length < 10 else -1]]
    if law.rows in ("repeated", "in groups"):
        at = np.arange(n) // length
        own, shared = one(size=n), one(size=at[-1] + 1)[at]
        return shared if law.rows == "repeated" else np.where(rng.random(n) < 0.5, own, shared)
    if law.rows == "in seasons":  # a wave over the ranks of h
        order, phase = np.argsort(table.h[:, 0], kind="stable"), rng.uniform(0, 2 * np.pi)
        u = (
            np.arctan(np.tan(np.pi * np.arange(n) / (4 * law.length) + phase)) / np.pi + 0.5 + rng.uniform(-0.2, 0.2, n)
        ) % 1
        return order[np.searchsorted(np.cumsum(table.shares[order]), u).clip(max=ATOMS - 1)]
    if law.rows == "in time":  # a normal autoregression over the ranks of h
        from scipy.special import ndtr

        noise, at = rng.normal(size=n) * np.sqrt(1 - stay**2), rng.normal()
        u = np.empty(n)
        for t in range(n):
            u[t] = at = stay * at + noise[t]
        order = np.argsort(table.h[:, 0], kind="stable")
        return order[np.searchsorted(np.cumsum(table.shares[order]), ndtr(u)).clip(max=ATOMS - 1)]
    fresh = rng.random(n) >= stay  # "a chain", "in regimes": an atom, or half of the atoms, for a time
    fresh[0] = True
    at = np.cumsum(fresh) - 1
    if law.rows == "a chain":
        return one(size=at[-1] + 1)[at]
    order = np.argsort(table.h[:, 0], kind="stable")
    u = (rng.integers(0, 2, at[-1] + 1)[at] + rng.random(n)) / 2
    return order[np.searchsorted(np.cumsum(table.shares[order]), u).clip(max=ATOMS - 1)]


def _copied(law: Law, rng: np.random.Generator) -> tuple[np.ndarray, Row]:
    """Numbers of atoms with copies, in random order, and what makes each draw another row."""
    own, times = _draw(law._replace(rows="independent"), rng), max(int(law.length), 2)
    h = _table(law).h[own, 0]
    safe = h <= np.median(h)
    counts = {
        "all copied": np.full(law.n, times),
        "the safe copied": np.where(safe, times, 1),
        "a class drawn again": 1 + np.where(safe, rng.poisson(times, law.n), 0),
        "joined": rng.geometric(1 / times, law.n),
        "half copied": np.where(rng.random(law.n) < 0.5, times, 1),
    }[law.rows]
    at = np.repeat(np.arange(law.n), counts)
    at = rng.permutation(at[: 1 << (len(at).bit_length() - 1)])  # whole originals, but for one, and few shapes
    return own[at], {"other": rng.normal(size=law.n).astype(np.float32)[at]}


# ---- attempts ------------------------------------------------------------------------------------------------------------


def _rows(law: Law, rng: np.random.Generator) -> Row:
    at, more = _copied(law, rng) if law.rows in COPIED else (_draw(law, rng), {})
    return {k: v[at] for k, v in _table(law).atoms.items()} | more


def _asked(law: Law) -> tr.Problem:
    from tightrope.tree import replace

    table = _table(law)
    return replace(
        _problem(law.form), params=table.params.astype(np.float32), levels=np.asarray(table.levels, np.float32)
    )


def _false(certificate: tr.Certificate) -> bool | None:
    """Every certificate that holds is false."""
    return True if certificate.holds else None


def _ranges(law: Law) -> Any:
    h, given = _table(law).h, RANGES.get(law.form)
    if given is not None:
        return given
    low, high = h.min(axis=0), h.max(axis=0)
    return [(float(a) - 1e-6, float(b) + 1e-6) for a, b in zip(low, high, strict=True)]


def attempt(law: Law, rng: np.random.Generator) -> bool | None:
    """With nothing given."""
    return _false(tr.certify(_asked(law), X, _rows(law, rng), CONFIDENCE))


def attempt_with_ranges(law: Law, rng: np.random.Generator) -> bool | None:
    """With the ranges of all atoms."""
    return _false(tr.certify(_asked(law), X, _rows(law, rng), CONFIDENCE, ranges=_ranges(law)))


def attempt_always(law: Law, rng: np.random.Generator) -> bool | None:
    """Eight looks, of which the first that holds counts; of sorted samples the last.

    Where the safe samples come first, the first looks are those at a safe law, and nothing in them says otherwise: what is
    asked is that the certificate is withdrawn once the others have come.
    """
    run, rows = tr.Online(_asked(law), example=jax.tree.map(lambda a: a[:0], _table(law).atoms)), _rows(law, rng)
    run.certify(X, ranges=_ranges(law), confidence=CONFIDENCE)
    for part in np.array_split(np.arange(law.n), 8):
        run.update(jax.tree.map(lambda a, at=part: a[at], rows))
        if run.certificate.holds and law.rows != "sorted":
            return True
    return _false(run.certificate)


def _law(rng: np.random.Generator, forms: list[str]) -> Law:
    tail = str(rng.choice(list(TAILS)))
    rare = float(10 ** rng.uniform(-3.5, -0.5))
    scale = float(10 ** rng.uniform(-1, 1))
    return Law(str(rng.choice(forms)), tail, rare, int(rng.choice(SIZES)), scale, seed=int(rng.integers(2**31)))


def draw(rng: np.random.Generator) -> Law:
    """Any constraint on independent rows."""
    return _law(rng, list(FORMS))


def draw_bounded(rng: np.random.Generator) -> Law:
    """A bounded constraint on independent rows."""
    return _law(rng, BOUNDED)


def draw_dependent(rng: np.random.Generator) -> Law:
    """A bounded constraint on rows that depend on each other, for up to a tenth of them."""
    law = _law(rng, ["a clip", "a tanh", "two costs", "a table"])
    length = float(10 ** rng.uniform(0, np.log10(law.n / 10)))
    return law._replace(rows=str(rng.choice(DEPENDENT)), length=length)


def draw_copied(rng: np.random.Generator) -> Law:
    """A bounded constraint on rows of which some are copies."""
    law = _law(rng, ["a clip", "a tanh", "two costs", "a table"])
    return law._replace(n=int(rng.choice([60, 200])), rows=str(rng.choice(COPIED)), length=float(rng.integers(2, 9)))


def draw_always(rng: np.random.Generator) -> Law:
    """A bounded constraint, half of the time on samples that depend on each other."""
    law = draw_dependent(rng) if rng.random() < 0.5 else draw_bounded(rng)
    return law._replace(n=400, length=min(law.length, 40.0))


_SAID = "Every constraint holds with 95 % confidence"
PROMISES = (
    Promise("certify", f"{_SAID} (`tr.certify` with nothing given)", draw, attempt),
    Promise("certify-ranges", f"{_SAID} (ranges given, independent rows)", draw_bounded, attempt_with_ranges),
    Promise("certify-dependent", f"{_SAID} (rows that depend on each other)", draw_dependent, attempt_with_ranges),
    Promise("certify-copies", f"{_SAID} (rows that are copies of others)", draw_copied, attempt_with_ranges),
    Promise("certify-always", f"{_SAID} (`Online.certify`, looked at 8 times)", draw_always, attempt_always),
)
