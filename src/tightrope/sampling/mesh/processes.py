"""What processes that run the same script say to each other: few words, before a run and between its chunks of steps.

All of them must ask for the same things in the same order. What each would decide by itself, by its clock or its user, the
first one decides for all.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from tightrope.sampling.rows import Arrays
from tightrope.sampling.sampler import BLOCK_BYTES
from tightrope.tree import Tree


def spans_processes(mesh: Mesh) -> bool:
    """Whether a mesh has devices of several processes."""
    return len({device.process_index for device in mesh.devices.flat}) > 1


def leads() -> bool:
    """Whether this is the process that writes files, shows progress and calls back."""
    return jax.process_index() == 0


def said_by_all(mine: Any) -> list[Any]:
    """What every process says, in their order; anything that JSON can hold."""
    from jax.experimental.multihost_utils import process_allgather

    text = np.frombuffer(json.dumps(mine).encode(), np.uint8)
    lengths = np.asarray(process_allgather(np.array([text.size], np.int32))).reshape(-1)
    padded = np.zeros(int(lengths.max()), np.uint8)
    padded[: text.size] = text
    texts = np.asarray(process_allgather(padded)).reshape(len(lengths), -1)
    return [json.loads(texts[k, :length].tobytes()) for k, length in enumerate(lengths)]


@contextlib.contextmanager
def failing_together(together: bool, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """What one process raises all of them raise, so that none waits for another that has left; the others say of whom it
    is. Alone, nothing is changed."""
    mine: Exception | None = None
    try:
        yield
    except errors as error:
        mine = error
    said = said_by_all(None if mine is None else str(mine)) if together else []
    if mine is not None:
        raise mine
    for process, words in enumerate(said):
        if words is not None:
            raise errors[0](f"Process {process} of {len(said)}: {words}")


def said_by_first(mine: Any) -> Any:
    """What the first process says; anything that JSON can hold. The others' own words do not matter."""
    return said_by_all(mine if leads() else None)[0]


def agreed(together: bool, *numbers: float) -> tuple[float, ...]:
    """The numbers as they are; those of the first process where several go together."""
    return tuple(of_first(np.array(numbers, np.float32)).tolist()) if together else numbers


def of_first(tree: Tree) -> Tree:
    """The first process's arrays; the others give arrays of the same shapes and dtypes."""
    from jax.experimental.multihost_utils import broadcast_one_to_all

    return jax.tree.map(np.asarray, broadcast_one_to_all(jax.tree.map(np.asarray, tree)))


def exchanged(rows: Tree, parts: list[int], needed: list[tuple[int, int]]) -> Tree:
    """The rows that this process needs, of all rows in the order of processes, of which each has a part.

    Args:
        rows: this process's part, NumPy arrays.
        parts: how many rows each process has.
        needed: the first and the end of the rows that each process needs.
    """
    from jax.experimental.multihost_utils import process_allgather

    me, ends = jax.process_index(), np.cumsum(parts)
    begin, (first, end) = int(ends[me]) - parts[me], needed[me]
    wandering = [_misplaced(int(ends[k]) - parts[k], int(ends[k]), *needed[k]) for k in range(len(parts))]
    at_once = BLOCK_BYTES // max(1, Arrays(rows).bytes_a_row)  # rows of each process that all hold
    size = max(1, min(at_once, max(map(len, wandering))))
    low, high = max(first, begin), min(end, begin + parts[me])

    def empty(a: np.ndarray) -> np.ndarray:
        found = np.empty((end - first, *a.shape[1:]), a.dtype)
        if low < high:
            found[low - first : high - first] = a[low - begin : high - begin]
        return found

    held = jax.tree.map(empty, rows)
    for start in range(0, max(map(len, wandering)), size):
        sent = [numbers[start : start + size] for numbers in wandering]

        def gather(a: np.ndarray, into: np.ndarray, sent: list[np.ndarray] = sent) -> None:
            buffer = np.zeros((size, *a.shape[1:]), a.dtype)
            buffer[: len(sent[me])] = a[sent[me] - begin]
            everyone = np.asarray(process_allgather(buffer))
            for numbers, values in zip(sent, everyone, strict=True):
                mine = (numbers >= first) & (numbers < end)
                into[numbers[mine] - first] = values[: len(numbers)][mine]

        jax.tree.map(gather, rows, held)
    return held


def _misplaced(begin: int, end: int, first: int, last: int) -> np.ndarray:
    """The numbers of rows begin .. end-1 that are not in first .. last-1."""
    numbers = np.arange(begin, end)
    return numbers[(numbers < first) | (numbers >= last)]
