"""Files larger than memory: a folder of Parquet files is made, read, trained on, and deleted.

    python -m benchmarks.parquet --gb 10

Each part runs in a process of its own, whose peak of resident memory is what is reported (asked: less than 1.5 GB for a
folder of 10 GB). CSOA's throughput with batches of 256 is given as a share of reading and decoding the same files alone,
measured in the same process (asked: at least 60 %). `subset` solves the first file by itself, from the file and as
arrays, and sets the two against each other.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr

COLUMNS = 100
ROWS_A_GROUP, GROUPS_A_FILE = 1 << 15, 16
FEATURES = [f"c{j}" for j in range(COLUMNS)]


def make(folder: Path, gb: float) -> int:
    """Write so many GB of float32 features, with a label and a sensitive attribute that some of them have to do with."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    free = shutil.disk_usage(folder).free
    if free < 1.2e9 * gb:
        raise SystemExit(f"The disk has {free / 1e9:.1f} GB left; {gb:g} GB do not fit with some to spare.")
    groups = max(1, round(gb * 1e9 / (4 * COLUMNS * ROWS_A_GROUP)))
    rng, writer = np.random.default_rng(0), None
    weights = rng.normal(size=COLUMNS).astype(np.float32) / np.sqrt(COLUMNS)
    for k in range(groups):
        group = rng.random(ROWS_A_GROUP) < 0.4
        X = rng.standard_normal((ROWS_A_GROUP, COLUMNS), dtype=np.float32)
        X[:, :5] += 0.5 * group[:, None]
        y = (X @ weights + 0.5 * rng.standard_normal(ROWS_A_GROUP, dtype=np.float32) > 0.2).astype(np.int8)
        columns = {name: X[:, j] for j, name in enumerate(FEATURES)} | {"y": y, "group": np.where(group, "a", "b")}
        table = pa.table(columns)
        if k % GROUPS_A_FILE == 0:
            if writer is not None:
                writer.close()
            words: Any = ["group"]  # floats in a dictionary would take more
            file = folder / f"part-{k // GROUPS_A_FILE:04d}.parquet"
            writer = pq.ParquetWriter(file, table.schema, use_dictionary=words)
        assert writer is not None
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return groups * ROWS_A_GROUP


def problem() -> tr.Problem:
    """Logistic loss with a bound on the covariance of score and group, sampled."""

    def loss(x, theta):
        a, y, _ = theta
        return jnp.logaddexp(0.0, (1 - 2 * y) * jnp.dot(a, x))

    def covariance(x, theta):
        a, _, s = theta
        q = (s - 0.4) * jnp.dot(a, x)
        return jnp.stack([q, -q])

    return tr.Problem(loss, covariance, tr.L2Ball(10.0, shape=COLUMNS), levels=0.02)


def source(folder: str) -> tr.Parquet:
    """Theta = (features, label, group)."""
    return tr.Parquet(
        folder, (FEATURES, "y", "group"), dtypes={"y": "float32", "group": "float32"}, categories={"group": ["b", "a"]}
    )


def throughput(folder: str, passes: float) -> dict[str, float]:
    """Microseconds a row, by the clock and of CPU time: read and decoded alone, and through CSOA with batches of 256.

    The clock says how much of the time to read is left where a core is free for each of the two threads; CPU time what both
    take together, which is all that a busy machine can show.
    """
    data, rows = source(folder), 0
    began = time.perf_counter(), time.process_time()
    for batch in data.batches():
        rows += len(batch[1])
        if rows > passes * data.n:
            break
    clock, cpu = (1e6 * (time.perf_counter() - began[0]) / rows, 1e6 * (time.process_time() - began[1]) / rows)
    seen: list[tuple[int, float, float]] = []
    steps = max(512, int(passes * data.n / 256))

    def note(snapshot: Any) -> None:
        seen.append((snapshot.step, time.perf_counter(), time.process_time()))
        if snapshot.step > 3 * steps / 4:
            raise _Enough  # what the result is worth on all rows is not asked here

    with contextlib.suppress(_Enough):
        tr.minimize(
            problem(), data, method="csoa", steps=steps, batch_size=256, record=80, callback=note, progress=False
        )
    # The reader is some buffers ahead, which were read while the steps were compiled: it must be so at both ends.
    first = next(k for k, (step, *_) in enumerate(seen) if step >= steps / 4)
    taken = 256 * (seen[-1][0] - seen[first][0])
    wall, both = (1e6 * (b - a) / taken for a, b in zip(seen[first][1:], seen[-1][1:], strict=True))
    return {
        "read": clock, "csoa": wall, "share": clock / wall, "read_cpu": cpu, "csoa_cpu": both, "share_cpu": cpu / both,
    }  # fmt: skip


class _Enough(BaseException):
    """Ends a run from its callback."""


def svrg(folder: str, passes: float) -> dict[str, float | str]:
    """SVRG-CSOA, to a certified gap of 1e-4 or for so many passes.

    Rows are float32 and everything else float64: rounding is counted in the gap, and in float32 it alone is 2e-4.
    """
    jax.config.update("jax_enable_x64", True)
    began, spent = time.perf_counter(), time.process_time()
    result = _svrg(source(folder), passes)
    gap = float("nan") if result.gap is None else result.gap
    return {
        "status": result.status.name, "gap": gap, "objective": float(result.objective or 0.0), "violation": result.violation,
        "passes": float(result.trace["passes"].iloc[-1]), "steps": result.cost.steps,
        "seconds": time.perf_counter() - began, "cpu": time.process_time() - spent,
    }  # fmt: skip


def _svrg(data: Any, passes: float) -> tr.Result:
    start = np.zeros(COLUMNS)
    return tr.minimize(
        problem(), data, method="svrg-csoa", tol=1e-4, passes=passes, feasible_point=start, progress=False
    )


def subset(folder: str, passes: float) -> dict[str, float | str]:
    """Both on the first file of the folder, as a file and as arrays: how far results are from each other."""
    jax.config.update("jax_enable_x64", True)
    first = str(min(Path(folder).glob("*.parquet")))
    files = source(first)
    arrays = jax.tree.map(lambda *parts: np.concatenate(parts), *files.batches())
    found = [_svrg(data, passes) for data in (files, arrays)]
    gaps = [float("nan") if result.gap is None else result.gap for result in found]
    return {
        "rows": files.n, "gaps": str(gaps),
        "objectives": float(np.ptp([result.objective or 0.0 for result in found])),
        "x": float(np.max(np.abs(found[0].x - found[1].x))),
    }  # fmt: skip


PARTS = {"throughput": throughput, "svrg": svrg, "subset": subset}


def run_part(name: str, folder: str, passes: float) -> None:
    """One part, and the peak of resident memory, as JSON."""
    found = PARTS[name](folder, passes)
    print(json.dumps(found | {"peak_gb": _peak_gb()}))


def _peak_gb() -> float:
    """The most memory that this process has had resident (not what its parent had, as in `resource.getrusage`)."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1e6


def main() -> None:
    """Make the folder, run the parts, delete the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=0.2, help="size of the folder")
    parser.add_argument("--passes", type=float, default=1.0, help="passes of CSOA")
    parser.add_argument("--svrg-passes", type=float, default=20.0)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--at", default=None, help="where to make the folder")
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        run_part(given.part[0], given.part[1], float(given.part[2]))
        return
    passes = {"throughput": given.passes, "svrg": given.svrg_passes, "subset": given.svrg_passes}
    with tempfile.TemporaryDirectory(dir=given.at) as folder:
        began = time.perf_counter()
        rows = make(Path(folder), given.gb)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        print(f"{size / 1e9:.2f} GB, {rows:,} rows, made in {time.perf_counter() - began:.0f} s", flush=True)
        for part in given.parts:
            call = [sys.executable, "-m", "benchmarks.parquet", "--part", part, folder, str(passes[part])]
            done = subprocess.run(call, capture_output=True, text=True, check=False)
            said = (
                done.stdout.strip().splitlines()[-1:] if done.returncode == 0 else done.stderr.strip().splitlines()[-3:]
            )
            print(part, *said, flush=True)


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    main()
