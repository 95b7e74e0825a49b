"""Whether this jaxlib computes rightly on this machine, asked before the first program of a process.

The patterns are those that some release got wrong; only ones that gave wrong numbers, since one that ends the process would
end it here. The test takes 0.05 to 0.1 CPU seconds. That it was passed is remembered in the folder of compiled programs,
where there is one and nobody else can write to it: by release, machine, device and XLA's flags. A failure never is.
"""

import contextlib
import hashlib
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.version import __version__ as version

from tightrope import _compilation_cache
from tightrope.files import replace_file

_TOLERANCE = 1e4
"""Largest error that passes, relative to the largest number and in units of the dtype's rounding: a thousand times what is
usual (measured: 1 to 3 units); the smallest error known was 0.002, which is 17,000 units of float32."""


class _Pattern(NamedTuple):
    name: str
    program: Callable[..., jax.Array]
    by_numpy: Callable[..., np.ndarray]
    dtype: Any
    shapes: tuple[tuple[int, ...], ...]  # of its arguments: the sizes from which on releases of jaxlib were wrong

    def arguments(self) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        return [rng.uniform(0.5, 1.5, shape).astype(self.dtype) for shape in self.shapes]


def _squares(matrix: jax.Array, rows: jax.Array) -> jax.Array:
    return jax.vmap(lambda row: jnp.sum((matrix @ row) ** 2))(rows)


def _squares_by_numpy(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return ((rows @ matrix.T) ** 2).sum(axis=1)


def _groups(x: jax.Array, matrix: jax.Array) -> jax.Array:
    return jax.vmap(lambda group: jnp.sum(group @ matrix, axis=0))(x)


def _means(x: jax.Array, weights: jax.Array, theta: jax.Array) -> jax.Array:
    return jnp.mean(jax.vmap(lambda row: jnp.sum(weights * (x * row)[None], axis=1))(theta), axis=0)


_EVERYWHERE = (
    _Pattern("sums of squares of products", _squares, _squares_by_numpy, np.float32, ((3, 3), (32_769, 3))),
    _Pattern(
        "sums of products over groups", _groups, lambda x, m: x.sum(axis=1) @ m, np.float32, ((64, 33, 3), (3, 64))
    ),
    _Pattern(
        "the Jacobian of means",
        jax.jacrev(_means),
        lambda _, weights, theta: weights * theta.mean(axis=0),
        np.float32,
        ((3,), (2, 3), (1000, 3)),
    ),
)
_IN_FLOAT64 = (_Pattern("sums of squares of products", _squares, _squares_by_numpy, np.float64, ((3, 3), (16_385, 3))),)


def passed(options: dict[str, Any]) -> dict[str, Any]:
    """Of the options, those that this compiler knows, once it has computed the patterns rightly with them; else refuses."""
    note = _note(options)
    names = _read(note)
    if names is None:
        names = _tested(options)
        _remember(note, names)
    return {name: value for name, value in options.items() if name in names}


def _tested(options: dict[str, Any]) -> list[str]:
    """The names of the options that are known. Another one is refused by the compiler, which says its name."""
    known = dict(options)
    while True:
        try:
            wrong = _wrong(known)
            break
        except RuntimeError as error:
            unknown = [name for name in known if f"No such compile option: '{name}'" in str(error)]
            if not unknown:
                raise
            known = {name: value for name, value in known.items() if name not in unknown}
    if wrong:
        raise RuntimeError(
            f"jaxlib {version} computes wrong numbers on this machine ({jax.default_backend()}): {'; '.join(wrong)}. "
            "tightrope computes nothing with it. Install another release of both packages: "
            "pip install jax==0.9.2 jaxlib==0.9.2 is right wherever it has been tried."
        )
    return list(known)


def _wrong(options: dict[str, Any]) -> list[str]:
    """What is wrong, pattern by pattern. What goes wrong is what XLA leaves to libraries, and it does so at any level of
    optimisation: at the lowest one the patterns compile in a third of the time."""
    patterns = _EVERYWHERE + (_IN_FLOAT64 if jax.default_backend() in ("cpu", "gpu") else ())
    arguments = [pattern.arguments() for pattern in patterns]

    def program(arguments: list[list[jax.Array]]) -> list[jax.Array]:
        return [pattern.program(*given) for pattern, given in zip(patterns, arguments, strict=True)]

    with contextlib.ExitStack() as stack:  # whatever the user's settings are
        for setting in (jax.enable_x64(True), jax.default_matmul_precision("highest")):
            stack.enter_context(setting)
        for setting in (jax.debug_nans(False), jax.debug_infs(False), jax.disable_jit(False)):
            stack.enter_context(setting)
        got = jax.jit(program, compiler_options=options | {"xla_backend_optimization_level": 0})(arguments)
    return [
        f"{pattern.name} in {np.dtype(pattern.dtype)} are off by {off:.1e} of the largest"
        for pattern, given, values in zip(patterns, arguments, got, strict=True)
        if not (off := _error(pattern, given, np.asarray(values))) <= _TOLERANCE * np.finfo(pattern.dtype).eps
    ]


def _error(pattern: _Pattern, given: list[np.ndarray], values: np.ndarray) -> float:
    expected = pattern.by_numpy(*(a.astype(np.float64) for a in given))
    with np.errstate(all="ignore"):  # wrong numbers overflow
        return float(np.max(np.abs(values - expected)) / np.max(np.abs(expected)))


# ---- what is remembered ------------------------------------------------------------------------------------------------


def _note(options: dict[str, Any]) -> Path | None:
    """The file that says that the test was passed; None where nothing is kept, or others could have written it."""
    folder = _compilation_cache.folder_in_use()
    if folder is None:
        return None
    device = jax.devices()[0]
    key = version, device.platform, device.device_kind, platform.uname()[:5], os.environ.get("XLA_FLAGS"), options
    content = Path(__file__).read_bytes() + repr(key).encode()  # another test is another note
    return folder / f"jaxlib-{version}-{hashlib.sha256(content).hexdigest()[:16]}.json"


def _read(note: Path | None) -> list[str] | None:
    try:
        if note is None or (
            hasattr(os, "geteuid") and note.stat().st_uid != os.geteuid()
        ):  # of when others could write
            return None
        names = json.loads(note.read_text())
    except (OSError, ValueError):
        return None
    return names if isinstance(names, list) else None


def _remember(note: Path | None, names: list[str]) -> None:
    if note is not None:
        with contextlib.suppress(OSError):  # a full disk; the next process tests again
            replace_file(note, json.dumps(names).encode())
