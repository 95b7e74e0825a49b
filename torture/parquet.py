"""Parquet files of odd types, with values that are missing, schemas that differ from file to file and bytes that were
changed: a sentence, or the numbers that Arrow's own objects have, also over a mesh."""

import datetime
import decimal
import os
import random
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jax.sharding import Mesh

import tightrope as tr
from torture.campaign import is_sentence, options, told, watched

ROWS = 40  # of a file at most
RUN_EVERY = 20  # one attack in as many runs a method over a mesh, which compiles programs
DAY = datetime.datetime(2020, 1, 1)
PAIR = [[1.0, 2.0], [0.5, -1.0]]
KINDS: dict[str, tuple[Any, list[Any]]] = {
    "double": (pa.float64(), [0.5, -1.0, 1e300, 3.0, float("nan"), float("inf")]), "float": (pa.float32(), [0.5, 2.0]),
    "half": (pa.float16(), [np.float16(0.5), np.float16(2)]), "int": (pa.int64(), [0, 1, 300, -1, 2**31, 2**62]),
    "byte": (pa.int8(), [0, 1, -128]), "unsigned": (pa.uint64(), [0, 1, 2**64 - 1]), "bool": (pa.bool_(), [True, False]),
    "decimal": (pa.decimal128(10, 2), [decimal.Decimal("1.25"), decimal.Decimal(3)]), "none": (pa.null(), [None]),
    "text": (pa.string(), ["a", "b", "é", ""]), "large text": (pa.large_string(), ["a", "b"]),
    "view": (pa.string_view(), ["a", "b"]), "bytes": (pa.binary(), [b"a", b"\xff"]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]), "date": (pa.date32(), [DAY.date()]),
    "time": (pa.timestamp("ms"), [DAY]), "clock": (pa.time64("us"), [DAY.time()]),
    "span": (pa.duration("s"), [datetime.timedelta(seconds=5)]), "struct": (pa.struct({"p": pa.float64()}), [{"p": 1.0}]),
    "list": (pa.list_(pa.float64()), [[1.0], [1.0, 2.0], []]), "map": (pa.map_(pa.string(), pa.int8()), [[("k", 1)]]),
    "vector": (pa.list_(pa.float64(), 2), PAIR), "whole vector": (pa.list_(pa.int64(), 2), [[1, 2], [300, -1]]),
    "holed vector": (pa.list_(pa.int32(), 2), [[1, 2], [1, None]]), "words": (pa.list_(pa.string(), 2), [["a", "b"]]),
    "vector of vectors": (pa.list_(pa.list_(pa.float64(), 2), 2), [PAIR]),
}  # fmt: skip
USUAL = ["double", "float", "int", "text", "vector", "dictionary", "bool"]
ASKED: dict[str, list[Any]] = {
    "columns": ["a", ["a", "b"], ("a", ["b"]), {"k": "b"}, ["a", "z"], []],
    "dtypes": ["float32", "int8", "int32", "bool", {"a": "float64"}, {"b": "uint8"}, "text", 3],
    "categories": [{"a": ["a", "b"]}, {"b": ["a", "b", "é", ""]}, {"a": [1, 2]}, {"a": [None]}, {"a": [[1]]}, {"b": 3}],
    "shuffle": [False, 7, True],
}


def table(chance: random.Random, kinds: dict[str, str]) -> pa.Table:
    """Rows of columns of these kinds, now and then with a value missing."""
    n, missing = chance.randint(1, ROWS), chance.choice([0.0, 0.0, 0.0, 0.02])

    def column(kind: str) -> pa.Array:
        values = KINDS[kind][1]
        some = values if chance.random() < 0.5 else values[:2]
        return pa.array([None if chance.random() < missing else chance.choice(some) for _ in range(n)], KINDS[kind][0])

    return pa.table({name: column(kind) for name, kind in kinds.items()})


def truth(tables: list[pa.Table], name: str, read: list[Any] | None) -> np.ndarray:
    """A column as numbers, by Python's own values; text by its place among the categories."""
    values = [value for one in tables for value in one.column(name).to_pylist()]
    if read is not None:
        return np.array([read.index(value) for value in values], float)
    kind = tables[0].schema.field(name).type
    if pa.types.is_temporal(kind):
        values = [value for one in tables for value in one.column(name).cast(_counts(kind)).to_pylist()]
    return np.array([[float(part) for part in v] if isinstance(v, list) else float(v) for v in values])


def _counts(kind: Any) -> Any:
    return pa.int32() if pa.types.is_date32(kind) else pa.int64()


def harmed(chance: random.Random, file: Path) -> None:
    """Some bytes are changed, or the end is cut off; the time of the last change is as it was."""
    stamp, whole = file.stat(), bytearray(file.read_bytes())
    how = chance.random()
    if how < 0.2:
        whole = whole[: chance.randrange(len(whole))]
    elif how < 0.8:
        for _ in range(chance.choice([1, 3, 20])):
            whole[chance.randrange(len(whole))] = chance.randrange(256)
    else:
        begin = chance.randrange(len(whole))
        whole[begin : begin + 30] = bytes(len(whole[begin : begin + 30]))
    file.write_bytes(whole)
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def _run(source: tr.Parquet) -> Any:
    """A run of a few steps over the files."""

    def objective(x: Any, theta: Any) -> Any:
        return sum(jnp.sum((x - jnp.asarray(leaf, x.dtype)) ** 2) for leaf in jax.tree.leaves(theta))

    problem = tr.Problem(objective, None, tr.Box(-1.0, 1.0, shape=()))
    result = tr.minimize(problem, source, method="csoa", steps=5, progress=False)
    if result.error is not None:
        raise result.error


def fails(drawn: random.Random, where: Path, run: bool) -> str | None:
    """One folder, read once."""
    kinds = {name: drawn.choice(list(KINDS) if not run and drawn.random() < 0.4 else USUAL) for name in "ab"}
    tables = []
    for number in range(drawn.randint(1, 3)):
        other = {name: drawn.choice(list(KINDS)) if drawn.random() < 0.05 else kind for name, kind in kinds.items()}
        tables.append(table(drawn, other))
        pq.write_table(
            tables[-1], where / f"{number}.parquet", row_group_size=drawn.choice([3, 10, 100]),
            use_dictionary=drawn.random() < 0.5, write_page_checksum=drawn.random() < 0.5,
            compression=drawn.choice(["none", "snappy"]),
        )  # fmt: skip
    asked = {name: drawn.choice(values) for name, values in ASKED.items() if not run and drawn.random() < 0.15}
    if run or drawn.random() < 0.2:
        asked |= {"mesh": Mesh(np.array(jax.devices()), ("rows",)), "shards": len(jax.devices())}
    said = f"{kinds} in {len(tables)} files, {asked}"
    harm: Callable[[], None] = lambda: harmed(drawn, where / "0.parquet")  # noqa: E731
    when = drawn.choice(["before", "after", "after", "never", "never"])
    try:
        if when == "before":
            harm()
        source = tr.Parquet(where, **asked)
        if when == "after":
            harm()
        if run:
            _run(source)
        parts = list(source.batches())
    except Exception as error:
        return None if is_sentence(error) else f"{said}, harmed {when}: {told(error)}"
    found = jax.tree.map(lambda *some: np.concatenate(some), *parts)
    if any(len(leaf) != source.n for leaf in jax.tree.leaves(found)):
        return f"{said}, harmed {when}: other numbers of rows than there are"
    if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found)):
        return f"{said}, harmed {when}: not finite"
    if when != "never" or "columns" in asked:
        return None
    wrong = [name for name in kinds if not _same(found[name], truth(tables, name, source.categories.get(name)))]
    return f"{said}: other numbers in {wrong[0]!r} than Arrow has" if wrong else None


def _same(found: np.ndarray, true: np.ndarray) -> bool:
    """Whether numbers are equal, as far as those that were asked for have digits."""
    digits = np.finfo(found.dtype).eps if found.dtype.kind == "f" else 0.0
    return found.shape == true.shape and bool(np.all(np.abs(found - true) <= digits * np.abs(true)))


def attack(k: int) -> str | None:
    """One folder of files."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = fails(random.Random(k), Path(folder), k % RUN_EVERY == RUN_EVERY - 1)
    return None if said is None else f"files {k}: {said.replace(folder, '')}"


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    watched("Parquet files", options(2000), "torture.parquet", attack)
