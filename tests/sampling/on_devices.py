"""Run by test_mesh.py in a process of its own with eight virtual devices: `python on_devices.py METHOD ...`.

Takes the same steps on 1, 2, 4 and 8 devices and ends with an error where the samples or the results differ: by more than
1e-12, or 1e-6 where all is float32 (`METHOD:DEVICES:float32`).
"""

import sys
import tempfile
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

import tightrope as tr
from tightrope.loop.driver import Driver, OneRun, Position, refresh_period
from tightrope.loop.prepare import prepare
from tightrope.problem import full_values
from tightrope.problems import structured_completion
from tightrope.sampling import Plan

jax.config.update("jax_enable_x64", True)
N, D = 200, 3  # which 64 does not divide: shards have 3 or 4 rows
rng = np.random.default_rng(0)
ROWS = {"a": rng.normal(size=(N, D)), "b": rng.normal(size=N)}
PROBLEM = tr.Problem(
    lambda x, row: (row["a"].dot(x) - row["b"]) ** 2,
    lambda x, row: x.sum()[None] * (1 + 0.1 * row["b"]),
    tr.L2Ball(1.0, shape=D),
    levels=-0.5,
)
METHODS = {
    "csoa": (tr.CSOA(eta0=0.5, upsilon0=0.1), 16),
    "split-csoa": (tr.SplitCSOA(), 64),
    "fw-csoa": (tr.FWCSOA(), 5),
    "svrg-csoa": (tr.SVRGCSOA(refresh_every=12), 8),
}


def rows_on(devices: int) -> tr.Rows:
    return tr.Rows(ROWS, mesh=Mesh(np.array(jax.devices()[:devices]), ("rows",)))


def drawn(data: tr.Rows, plan: Plan) -> list[list[tuple[int, float]]]:
    """The rows of every step and what they count, whoever has them."""
    at, weights = (np.asarray(a)[0, :, 0] for a in data.open(plan).take(0, plan.steps).items)
    devices, shards = data.rows.mesh.size, data.rows
    room = at.shape[1] // devices
    place = at + np.repeat(np.arange(devices), room)[None] * (shards.number // devices * shards.width)
    row = shards.starts[place // shards.width] + place % shards.width
    return [
        sorted((int(i), float(w)) for i, w in zip(rows, ws, strict=True) if w)
        for rows, ws in zip(row[: plan.steps], weights, strict=False)
    ]


def check_samples() -> None:
    for batch_size in (1, 5, 16, 64, 100):
        plan = Plan((2,), batch_size=batch_size, steps=12 * 64)
        found = [drawn(rows_on(devices), plan) for devices in (1, 2, 4, 8)]
        assert all(other == found[0] for other in found), f"samples of batches of {batch_size} depend on devices"
        seen = np.zeros(N)
        for step in found[0]:
            assert len(step) == batch_size
            for row, weight in step:
                seen[row] += weight
        # 12 rounds for every sample of a batch: passes of shards with 3 rows and with 4 are complete
        np.testing.assert_allclose(seen, plan.steps / N, rtol=1e-12)


def result(name: str, devices: int) -> np.ndarray:
    """The state's point and multipliers, and the values on all rows, after 24 steps."""
    method, batch_size = METHODS[name]
    ready = prepare(
        PROBLEM, rows_on(devices), method, steps=24, passes=None, batch_size=batch_size, seeds=(0,), x0=None
    )
    program = OneRun(ready)
    driver = Driver(program, ready.sampler.open(ready.plan), refresh_period(program.method))
    position = Position(program.start(), 0)
    while position.step < 24:
        position = driver.chunk(position, 24)
    state = position.carry.state
    f, h = full_values(ready.problem, state.x, ready.sampler.rows)
    return np.concatenate([np.asarray(state.x), np.asarray(state.lam), np.asarray(f)[None], np.asarray(h)])


def check_resumed() -> None:
    """Half of a run on two devices, the rest on eight, against all of it on one."""
    method, batch_size = METHODS["csoa"]
    options = {"method": method, "steps": 40, "batch_size": batch_size, "record": 8, "progress": False}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run"
        half = tr.minimize(PROBLEM, rows_on(2), checkpoint=file, callback=lambda now: now.step >= 20, **options)
        assert half.cost.steps < 40
        whole = tr.minimize(PROBLEM, rows_on(8), checkpoint=file, **options)
    np.testing.assert_allclose(whole.x, tr.minimize(PROBLEM, rows_on(1), **options).x, rtol=0, atol=1e-12)


def check_spread_already() -> None:
    """Arrays that are spread over devices need no mesh; other kinds of data than numbers of one kind travel too."""
    mesh = Mesh(np.array(jax.devices()[:4]), ("any",))
    spec = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("any"))
    data = tr.Rows({name: jax.device_put(a, spec) for name, a in ROWS.items()})
    assert (data.rows.mesh.size, data.n) == (4, N)
    np.testing.assert_array_equal(data.rows.rows(np.arange(N))["a"], ROWS["a"])
    mixed = tr.Rows((np.arange(N) % 2 == 0, np.arange(N)), mesh=mesh)
    yes, number = mixed.rows.rows(np.array([0, 7, N - 1]))
    assert (yes.tolist(), number.tolist()) == ([True, False, False], [0, 7, N - 1])
    with pytest.raises(ValueError, match="64 logical shards cannot be shared out among 3 devices"):
        tr.Rows(ROWS, mesh=Mesh(np.array(jax.devices()[:3]), ("rows",)))


def completed(devices: int | None) -> np.ndarray:
    """The matrix after some steps of C-FW-CSOA on entries that are spread by rows."""
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 17))
    mesh = None if devices is None else Mesh(np.array(jax.devices()[:devices]), ("rows",))
    made = structured_completion(matrix, 60.0, 200.0, mask=rng.random(matrix.shape) < 0.5, rank=6, mesh=mesh)
    found = tr.minimize(made.problem, made.data, method="cfw-csoa", steps=12, record=2, progress=False)
    assert found.objective is not None
    assert 0 < found.objective < 1  # in units of the observed entries' energy
    return np.append(np.asarray(found.x.dense()), found.objective)


def swept(devices: int | None) -> np.ndarray:
    """What five combinations, of which no number of devices has an equal share, come to after some steps."""
    mesh = None if devices is None else Mesh(np.array(jax.devices()[:devices]), ("runs",))
    method = tr.CSOA(eta0=np.array([0.1, 0.2, 0.5, 1.0, 2.0]), upsilon0=0.1)
    table = tr.sweep(PROBLEM, ROWS, method, steps=30, seeds=(0, 2), batch_size=4, mesh=mesh, progress=False)
    return table.select_dtypes(float).to_numpy()


def check(name: str, devices: list[int], tolerance: float) -> None:
    """Against one device; completion and sweeps against no mesh at all."""
    of = {"completion": completed, "sweep": swept}.get(name)
    one = result(name, 1) if of is None else of(None)
    assert np.all(np.isfinite(one))
    assert np.any(one[:D] != 0)
    for count in devices:
        found = result(name, count) if of is None else of(count)
        np.testing.assert_allclose(found, one, rtol=0, atol=tolerance, err_msg=f"{name} on {count}")


def main() -> None:
    check_samples()
    check_spread_already()
    for asked in sys.argv[1:]:
        name, counts, kind = (*asked.split(":"), "", "")[:3]
        if name == "resumed":
            check_resumed()
            continue
        with jax.enable_x64(kind != "float32"):
            check(name, [int(count) for count in counts.split(",")], 1e-6 if kind == "float32" else 1e-12)


if __name__ == "__main__":
    main()
