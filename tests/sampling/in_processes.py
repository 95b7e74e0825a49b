"""Run by test_processes.py, alone or by `tightrope launch`: each process gives its own rows, of which there are not as many
as the others have, and keeps what it has found in FOLDER/PROCESS.npy.

`python in_processes.py FOLDER [kill|columns|empty|files|vanishing|others]`. The last three read the same rows from the
Parquet files in FOLDER/data, of which each process reads its own row groups; one of these files vanishes, or process 1 is
given another folder.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import jax
import numpy as np

import tightrope as tr
from tightrope.sampling import rows as all_rows

if "OMPI_COMM_WORLD_SIZE" in os.environ:
    jax.distributed.initialize()
jax.config.update("jax_enable_x64", True)

FOLDER, WRONG = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
N, D = 200, 3
me, count = jax.process_index(), jax.process_count()
rng = np.random.default_rng(0)
rows = {"a": rng.normal(size=(N, D)), "b": rng.normal(size=N)}
cuts = np.round(N * np.linspace(0, 1, count + 1) ** 1.5).astype(int)
part = {name: a[cuts[me] : cuts[me + 1]] for name, a in rows.items()}
if WRONG == "columns" and me == 1:
    part["a"] = part["a"][:, :2]
if WRONG == "empty" and me == 1:
    part = {name: a[:0] for name, a in part.items()}
problem = tr.Problem(
    lambda x, row: (row["a"].dot(x) - row["b"]) ** 2,
    lambda x, row: x.sum()[None] * (1 + 0.1 * row["b"]),
    tr.L2Ball(1.0, shape=D),
    levels=-0.5,
)
mesh, method = jax.make_mesh((jax.device_count(),), ("rows",)), tr.CSOA(eta0=0.5, upsilon0=0.1)
if WRONG in ("files", "vanishing", "others"):
    method = tr.SVRGCSOA(refresh_every=10)
    all_rows._MOST_READ = 32  # slices smaller than a part: files are read again in every pass
    place = FOLDER / "data" / "part-0.parquet" if WRONG == "others" and me == 1 else FOLDER / "data"
    data = tr.Parquet(place, {"a": ["a0", "a1", "a2"], "b": "b"}, mesh=mesh, shards=4, shuffle=40)
else:
    data = tr.Rows(part, mesh=mesh)
assert data.n == N


def die_in_the_middle() -> None:
    while not (FOLDER / "now").exists():
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)


def show(now) -> None:
    assert me == 0  # the others are not called back
    if WRONG == "kill" and now.step >= 40:
        (FOLDER / "now").touch()
        time.sleep(5)
    if WRONG == "vanishing":
        (FOLDER / "data" / "part-1.parquet").unlink(missing_ok=True)


if WRONG == "kill" and me == 2:
    threading.Thread(target=die_in_the_middle, daemon=True).start()
options = {"checkpoint": FOLDER / "run", "checkpoint_every": 10} if count > 2 or (FOLDER / "run").exists() else {}
result = tr.minimize(problem, data, method=method, steps=80, batch_size=16, record=8, callback=show, **options)
print(f"{result.cost.steps} steps taken")
if WRONG == "vanishing":
    (FOLDER / f"{me}.txt").write_text(f"{result.status.name}: {result.message}")
np.save(
    FOLDER / f"{me}.npy",
    np.concatenate([np.ravel(np.asarray(v, float)) for v in (result.x, result.objective, result.constraints)]),
)
