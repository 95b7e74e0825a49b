"""Arrays and what is said about them in one file: safetensors with JSON in its header and a hash over both; no pickle."""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]


class FileError(ValueError):
    """A file that cannot be read as what it should be."""


def write_file(path: Path, arrays: Arrays, about: Mapping[str, Any]) -> None:
    """Write arrays, what is said about them and a hash over both; `about["format"]` is "tightrope KIND NUMBER"."""
    from safetensors.numpy import save

    contiguous = {
        name: np.asarray(array, order="C") for name, array in arrays.items()
    }  # or its memory would be written
    sealed = dict(about) | {"sha256": seal(about, contiguous)}
    replace_file(path, save(contiguous, metadata={"tightrope": json.dumps(sealed)}))


def read_file(path: Path, form: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and what is said about them; a file of another format, or one that was changed, is refused."""
    from safetensors import SafetensorError, safe_open

    kind = form.removeprefix("tightrope ").rpartition(" ")[0]
    unreadable = (
        SafetensorError,
        OSError,
        ValueError,
        RecursionError,
        MemoryError,
        KeyError,
        TypeError,
        AttributeError,
    )
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {}).get("tightrope", "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except unreadable as error:  # the last three are safetensors' for kinds of numbers that NumPy does not have
        raise FileError(f"{path} cannot be read as a {kind} ({str(error) or type(error).__name__}).") from error
    if not isinstance(about, dict) or not str(about.get("format")).startswith(f"tightrope {kind}"):
        raise FileError(f"{path} is not a tightrope {kind}.")
    if about["format"] != form:
        raise FileError(f"{path} was written by another version of tightrope.")
    if about.pop("sha256", None) != seal(about, arrays):
        raise FileError(f"{path} was changed or damaged after it was written: its hash does not match.")
    return arrays, about


def seal(about: Mapping[str, Any], arrays: Arrays | None = None) -> str:
    """A hash over what JSON can hold, and over arrays with their names, shapes and kinds of number."""
    sha = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(arrays or {}):
        array = np.asarray((arrays or {})[name], order="C")
        sha.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def replace_file(path: Path, content: bytes) -> None:
    """Write to a neighbour, then replace: a crash leaves the old file or the new one, never half of either."""
    sweep(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def sweep(path: Path) -> None:
    """Remove what killed processes left beside a file while they wrote it."""
    if os.name != "posix":  # elsewhere, asking whether a process lives ends it
        return
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        number = left.name.removesuffix(".tmp").rpartition(".")[2]
        if number.isdigit() and not _lives(int(number)):
            with suppress(OSError):  # another process swept it
                left.unlink()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True
