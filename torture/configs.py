"""A user's own `jax.config`: calls under every setting and pairs of them give a right answer or a sentence, and leave the
settings as they were."""

import contextlib
import functools
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

import tightrope as tr
from torture.campaign import PROBLEM, ROWS, campaign, is_sentence, options, smallest, told
from torture.threads import CALLS

SETTINGS: dict[str, list[Any]] = {
    "jax_enable_x64": [True],
    "jax_debug_nans": [True],
    "jax_debug_infs": [True],
    "jax_disable_jit": [True],
    "jax_transfer_guard": ["log", "disallow"],
    "jax_default_matmul_precision": ["highest", "bfloat16", "tensorfloat32"],
    "jax_numpy_rank_promotion": ["raise", "warn"],
    "jax_numpy_dtype_promotion": ["strict"],
    "jax_default_device": ["cpu"],
    "jax_default_prng_impl": ["rbg"],
    "jax_threefry_partitionable": [False],
    "jax_check_tracer_leaks": [True],
    "jax_enable_checks": [True],
    "jax_log_compiles": [True],
    "jax_default_dtype_bits": ["32"],
    "jax_debug_key_reuse": [True],
}
SLOW = {"jax_disable_jit", "jax_check_tracer_leaks", "jax_enable_checks"}  # every operation by itself: short calls only
LOOSE = {
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_default_dtype_bits",
}  # other draws
CLOSE = 1e-3  # of float32, other orders of sums, in units of the largest value: the runs are of 200 steps


FEW = ROWS[:20]
SHORT: dict[str, Callable[[], Any]] = {
    "csoa, 3 steps": lambda: tr.minimize(PROBLEM, FEW, method="csoa", steps=3).x,
    "sqp, 2 passes": lambda: tr.minimize(PROBLEM, FEW, method="sqp", passes=2).x,
    "certify": lambda: [one.upper for one in tr.certify(PROBLEM, np.zeros(3), FEW, ranges=(-20.0, 20.0)).constraints],
}
ALL = CALLS | SHORT


def available() -> list[tuple[str, Any]]:
    """The settings that this JAX has, with their values."""
    return [(name, value) for name, values in SETTINGS.items() if hasattr(jax.config, name) for value in values]


@contextlib.contextmanager
def set_to(pairs: list[tuple[str, Any]]) -> Iterator[None]:
    """The settings within the block, and as they were after it."""
    before = [(name, getattr(jax.config, name)) for name, _ in pairs]
    try:
        for name, value in pairs:
            jax.config.update(name, jax.devices("cpu")[0] if name == "jax_default_device" else value)
        yield
    finally:
        for name, value in before:
            jax.config.update(name, value)


def values() -> dict[str, Any]:
    """What the settings are, as far as they can be read."""
    return {name: getattr(jax.config, name) for name in SETTINGS if hasattr(jax.config, name)}


@functools.cache
def plain(name: str) -> list[np.ndarray]:
    """What a call gives with nothing set."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(ALL[name]())]


def fails(name: str, pairs: list[tuple[str, Any]]) -> str | None:
    """What is wrong with a call under these settings; None where it is right or refused in a sentence."""
    expected, said = plain(name), ", ".join(f"{key}={value!r}" for key, value in pairs)
    with set_to(pairs):
        before = values()
        try:
            found = [np.asarray(leaf) for leaf in jax.tree.leaves(ALL[name]())]
        except Exception as error:
            return None if is_sentence(error) else f"{name} with {said or 'nothing set'}: {told(error)}"
        if values() != before:
            return f"{name} with {said}: left other settings"
    if not all(np.all(np.isfinite(a) | ~np.isfinite(b)) for a, b in zip(found, expected, strict=True)):
        return f"{name} with {said}: not finite"
    if {key for key, _ in pairs} & LOOSE:
        return None
    near = all(_near(a, b) for a, b in zip(found, expected, strict=True))
    return None if near else f"{name} with {said}: other numbers than with nothing set"


def _near(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.all(np.abs(a - b) <= CLOSE * max(1.0, float(np.max(np.abs(b), initial=0)))))


def attack(k: int) -> str | None:
    """One call under one to three settings, and under those alone that it fails with."""
    chance, known = random.Random(k), available()
    pairs = [known[k % len(known)]]
    pairs += [pair for pair in chance.sample(known, k // len(known) % 3) if pair[0] != pairs[0][0]]
    pairs = list(dict(pairs).items())
    slow = any(name in SLOW for name, _ in pairs)
    name = chance.choice(list(SHORT if slow else CALLS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return smallest(pairs, functools.partial(fails, name))


if __name__ == "__main__":
    asked = options(300, workers=1)
    campaign("settings of JAX", asked.count, attack, 1, asked.first)
