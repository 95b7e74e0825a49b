"""Arrays and what is said about them in one file: safetensors with JSON in its header, replaced atomically; no pickle."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


class FileError(ValueError):
    """A file that cannot be read as what it should be."""


def write_file(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Write to a neighbour, then replace: a crash leaves the old file or the new one, never half of either."""
    from safetensors.numpy import save

    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    contiguous = {
        name: np.asarray(array, order="C") for name, array in arrays.items()
    }  # or its memory would be written
    try:
        with open(beside, "wb") as file:
            file.write(save(contiguous, metadata={"tightrope": json.dumps(about)}))
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read_file(path: Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and what is said about them; `about["format"]` must begin with `kind`."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {}).get("tightrope", "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, json.JSONDecodeError, OSError) as error:
        raise FileError(f"{path} cannot be read as a {kind} ({error}).") from error
    if not isinstance(about, dict) or not str(about.get("format")).startswith(f"tightrope {kind}"):
        raise FileError(f"{path} is not a tightrope {kind}.")
    return arrays, about
