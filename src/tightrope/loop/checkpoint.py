"""A run on disk: arrays in safetensors, the rest as JSON in its header, one file, replaced atomically; no pickle."""

import functools
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.files import FileError, Form
from tightrope.loop.prepare import Prepared
from tightrope.problem.problem import called_back
from tightrope.sampling import Generator
from tightrope.sampling.mesh.processes import leads, of_first, said_by_first
from tightrope.tree import Tree

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr


class CheckpointError(FileError):
    """A file that is not this run's checkpoint.

    Example:
        >>> import tempfile, numpy as np, tightrope as tr
        >>> problem = tr.Problem(lambda x, theta: ((x - theta) ** 2).sum(), None, tr.L2Ball(1.0, shape=2))
        >>> with tempfile.NamedTemporaryFile(suffix=".ckpt") as file:
        ...     _ = file.write(b"a letter to a friend")
        ...     file.flush()
        ...     try:
        ...         tr.minimize(problem, np.ones((4, 2)), method="csoa", steps=4, checkpoint=file.name)
        ...     except tr.CheckpointError as refusal:
        ...         print("refused")
        refused
    """


FORM = Form("checkpoint", 4, "Give another path, or delete the file to start afresh.", CheckpointError)


class Saved(NamedTuple):
    """What a checkpoint holds."""

    state: Any  # of the run: arrays in NumPy
    step: int
    seconds: float
    rows: list[dict[str, float]]
    bound: list[float]  # on the optimal value, and its rounding; empty where none is known
    gaps: list[float]  # the smallest so far, at every look


class Checkpoint:
    """One run's checkpoint file.

    Args:
        path: the file.
        fingerprint: what the run is, part by part (problem, data, method, ...); a file with another one is refused.
        every_steps: write after every so many steps.
        every_seconds: write when so many seconds have passed since the last time.
        together: whether several processes share the file, which the first of them reads and writes for all.
    """

    def __init__(
        self,
        path: str | Path,
        fingerprint: dict[str, str],
        every_steps: int | None = None,
        every_seconds: float = 30.0,
        together: bool = False,
    ):
        self.path, self.fingerprint, self.together = Path(path), fingerprint, together
        if not self._asked(self.path.parent.is_dir()):  # found out at the end, it would cost the run
            raise CheckpointError(
                f"{self.path} cannot be written: there is no folder {self.path.parent}. Make it first."
            )
        self.every_steps, self.every_seconds = every_steps, every_seconds
        self.written = time.monotonic()

    def exists(self) -> bool:
        """Whether there is something to resume."""
        return self._asked(self.path.exists())

    def _asked(self, answer: bool) -> bool:
        """The answer of who has the file."""
        return said_by_first(answer) if self.together else answer

    def due(self, step: int) -> bool:
        """Whether it is time to write."""
        by_steps = self.every_steps is not None and step % self.every_steps == 0
        return by_steps or time.monotonic() - self.written >= self.every_seconds

    def save(
        self,
        state: Tree,
        *,
        step: int,
        seconds: float,
        rows: list[dict[str, float]],
        bound: Sequence[float] = (),
        gaps: Sequence[float] = (),
    ) -> None:
        """Write what the run is now: a crash leaves the old file or the new one, never half of either."""
        leaves = jax.tree_util.tree_flatten_with_path(state)[0]
        arrays = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}
        about = {
            "fingerprint": self.fingerprint,
            "step": step,
            "seconds": seconds,
            "rows": rows,
            "bound": list(bound) if np.all(np.isfinite(bound)) else [],
            "gaps": list(gaps),
        }
        FORM.write(self.path, arrays, about)
        self.written = time.monotonic()

    def load(self, like: Tree) -> Saved:
        """Read the file into the structure of `like`; refuse what is not this run's."""
        if not self.together:
            return self._read(like)
        saved, said = Saved(like, 0, 0.0, [], [], []), {}
        try:
            saved = self._read(like) if leads() else saved
        except CheckpointError as error:
            said = {"error": str(error)}
        said = said_by_first(said or saved._replace(state=None)._asdict())
        if "error" in said:
            raise CheckpointError(said["error"])
        return Saved(**said)._replace(state=of_first(saved.state))

    def _read(self, like: Tree) -> Saved:
        arrays, about = FORM.read(self.path)
        other = [part for part, mark in self.fingerprint.items() if about["fingerprint"].get(part) != mark]
        if other:
            differ = f"{', '.join(other)} differ{'s' * (len(other) == 1)}"
            raise FORM.refuse(f"{self.path} belongs to another run: its {differ} from this one's.")
        paths, treedef = jax.tree_util.tree_flatten_with_path(like)
        keys = [jax.tree_util.keystr(path) for path, _ in paths]
        kinds = {key: (np.shape(leaf), np.asarray(leaf).dtype) for key, (_, leaf) in zip(keys, paths, strict=True)}
        if kinds != {key: (array.shape, array.dtype) for key, array in arrays.items()}:
            raise FORM.refuse(f"{self.path} holds other arrays than this run's state.")
        state = jax.tree.unflatten(treedef, [arrays[key] for key in keys])
        return Saved(state, about["step"], about["seconds"], about["rows"], about["bound"], about["gaps"])


def fingerprint(ready: Prepared, track: Callable[..., Any] | None) -> dict[str, str]:
    """What a run is, part by part, so that a refusal can say which part differs."""
    from tightrope import __version__ as version  # the package imports this file while it is made

    problem, sampler = ready.problem, ready.sampler
    x, lam = jax.tree.map(np.asarray, (ready.x, ready.lam))  # wherever they lie: a run is the same on other devices
    theta = sampler.example()
    batch = jax.tree.map(lambda s: jax.ShapeDtypeStruct((1, *s.shape), s.dtype), theta)
    functions = digest_function(problem.value_and_gradient, x, lam, batch)  # derivatives may be the user's own
    if oracle := called_back(problem):
        functions = digest(functions, digest_python(oracle.fn))
    tracked = "" if track is None else digest_function(track, x)
    made = digest_function(sampler.fn, jax.random.key(0)) if isinstance(sampler, Generator) else ""
    return {
        "problem": digest(functions, tracked, digest_object(problem.domain), [problem.levels, problem.params]),
        "data": digest(type(sampler).__name__, str(theta), made, *sampler.content),
        "method": digest_object(ready.method),
        "starting point": digest([x, lam]),
        "number of steps": str(ready.steps),
        "seed": str(ready.plan.seeds),
        "batch size": str((ready.plan.batch_size, ready.sizes)),
        "version of JAX": jax.__version__,
        "version of tightrope": version,
    }


def digest(*parts: Any) -> str:
    """A hash of strings and arrays."""
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            sha.update(part.encode())
        else:
            for path, leaf in jax.tree_util.tree_flatten_with_path(part)[0]:
                random_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
                array = np.ascontiguousarray(jax.random.key_data(leaf) if random_key else leaf)
                sha.update(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}".encode())
                sha.update(array.data if array.size else b"")
    return sha.hexdigest()


def digest_function(fn: Any, *example: Any) -> str:
    """A hash of what a function computes: its jaxpr and the constants it closes over, not its name or address."""
    closed = jax.make_jaxpr(fn)(*example)
    return digest(_without_address(str(closed.jaxpr)), list(_constants(closed)))


def digest_python(fn: Any) -> str:
    """A hash of a function that is not compiled: its bytecode, its constants and what it closes over; not its globals."""
    if isinstance(fn, functools.partial):
        return digest(digest_python(fn.func), digest_object(fn.args), digest_object(fn.keywords))
    if isinstance(fn, CodeType):
        parts = [digest_python(c) if isinstance(c, CodeType) else repr(c) for c in fn.co_consts]
        return digest(fn.co_code.hex(), " ".join(fn.co_names), *parts)
    if hasattr(fn, "__code__"):
        kept = [cell.cell_contents for cell in getattr(fn, "__closure__", None) or ()]
        kept += [*(getattr(fn, "__defaults__", None) or ()), *(getattr(fn, "__kwdefaults__", None) or {}).values()]
        parts = [digest_python(v) if hasattr(v, "__code__") else digest_object(v) for v in kept]
        return digest(digest_python(fn.__code__), *parts)
    return digest(digest_python(type(fn).__call__), digest_object(getattr(fn, "__dict__", {})))


def _constants(closed: "ClosedJaxpr") -> Iterator[Any]:
    """The arrays a function closes over; those of functions that it calls compiled are not printed in its jaxpr."""
    from jax.extend.core import ClosedJaxpr

    yield from closed.consts
    for equation in closed.jaxpr.eqns:
        for inner in jax.tree.leaves(equation.params, is_leaf=lambda p: isinstance(p, ClosedJaxpr)):
            if isinstance(inner, ClosedJaxpr):
                yield from _constants(inner)


def digest_object(value: Any) -> str:
    """A hash of a method or a set: its type and all its fields, the static ones too, whatever they are made of."""
    if isinstance(value, dict):
        return digest(*(digest_object(item) for pair in value.items() for item in pair))
    if isinstance(value, list | tuple):
        return digest(*map(digest_object, value))
    if isinstance(value, jax.Array | np.ndarray):
        return digest([value])
    if hasattr(value, "__dict__") and not callable(value):
        return digest(type(value).__name__, digest_object(vars(value)))
    return digest(_without_address(repr(value)))


def _without_address(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)
