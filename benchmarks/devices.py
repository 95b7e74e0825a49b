"""Rows over devices and processes: `python -m benchmarks.devices overhead|devices|processes|accelerator`.

`overhead` sets rows on a mesh of one device against rows without a mesh. `devices` takes the same steps on 1, 2, 4 and 8
virtual devices of a CPU, and `processes` on 1, 2 and 4 processes with gloo, each with the same batches in all; both print
what `docs/scale.md` makes a model of. `accelerator` makes rows on an accelerator (1e8 x 100 by default), solves to a
certified gap of 1e-4 by SVRG-CSOA, and sets the time against the memory's bandwidth.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

import tightrope as tr
from tightrope.problem import full_jacobian

D = 100
BATCHES = 256, 4096, 65_536
TOL = 1e-4  # in the units of the objective, which is 0.69 at zero


def problem() -> tr.Problem:
    """Logistic regression whose scores are nearly uncorrelated with a group: the smallest of the fair problems."""
    return tr.Problem(
        objective=lambda x, row: jnp.logaddexp(0.0, -row["label"] * row["features"].dot(x)),
        constraints=tr.two_sided(lambda x, row: (row["group"] * row["features"].dot(x))[None]),
        domain=tr.L2Ball(3.0, shape=D),
        levels=0.02,
    )


@partial(jax.jit, static_argnums=(0, 1))
def made(n: int, block: int) -> dict[str, jax.Array]:
    """Rows, made where JAX computes, a block at a time: nothing but the rows themselves is ever held."""
    truth = jax.random.normal(jax.random.key(0), (D,), jnp.float32) / np.float32(np.sqrt(D))

    def fill(k, rows):
        features, labels, groups = jax.random.split(jax.random.fold_in(jax.random.key(1), k), 3)
        group = jax.random.rademacher(groups, (block,), jnp.float32)
        drawn = jax.random.normal(features, (block, D), jnp.float32).at[:, 0].add(group / 2)
        likely = jax.random.uniform(labels, (block,), jnp.float32) < jax.nn.sigmoid(2 * drawn @ truth)
        label = jnp.where(likely, jnp.float32(1), jnp.float32(-1))
        new = {"features": drawn, "label": label, "group": group}
        return {
            name: jax.lax.dynamic_update_slice_in_dim(rows[name], part, k * block, axis=0) for name, part in new.items()
        }

    empty = {"features": jnp.zeros((n, D), jnp.float32)} | dict.fromkeys(("label", "group"), jnp.zeros(n, jnp.float32))
    return jax.lax.fori_loop(0, n // block, fill, empty)


def seconds_a_step(data: tr.Rows, batch_size: int, steps: int) -> float:
    """Of CSOA, without what the first chunk of steps compiles."""
    result = tr.minimize(
        problem(),
        data,
        method=tr.CSOA(eta0=0.1, upsilon0=0.01),
        steps=steps,
        batch_size=batch_size,
        record=8,
        progress=False,
    )
    trace = result.trace
    first, last = trace.iloc[len(trace) // 2], trace.iloc[-1]
    return float((last.seconds - first.seconds) / (last.step - first.step))


def overhead(rounds: int = 3) -> None:
    """The mesh of one device against none, in turns: CPU time of steps and of the order of their samples.

    It is what a call of three times as many steps takes longer, so nothing that a call does once is in it.
    """
    given = jax.tree.map(np.asarray, made(65_536, 8192))
    sources = {
        "no mesh": tr.Rows(given),
        "one device": tr.Rows(given, mesh=Mesh(np.array(jax.devices()[:1]), ("rows",))),
    }
    task = problem()
    for method, batch_size, steps in (
        (tr.CSOA(eta0=0.1, upsilon0=0.01), 16, 30_000),
        (tr.CSOA(eta0=0.1, upsilon0=0.01), 256, 6_000),
        (tr.CSOA(eta0=0.1, upsilon0=0.01), 4096, 500),
        (tr.SVRGCSOA(refresh_every=256), 256, 256 * 8),
    ):
        times: dict[str, list[float]] = {name: [] for name in sources}
        for turn in range(rounds + 1):
            for name, data in sources.items():
                spent = [_cpu_seconds(task, data, method, batch_size, count) for count in (steps, 3 * steps)]
                times[name] += [(spent[1] - spent[0]) / (2 * steps)] if turn else []
        ratios = [b / a for a, b in zip(*times.values(), strict=True)]
        told = ", ".join(f"{name} {1e6 * statistics.median(found):.1f} us" for name, found in times.items())
        print(
            f"{method.name}, batches of {batch_size}: {told} a step; ratio {statistics.median(ratios):.3f}", flush=True
        )


def _cpu_seconds(task: tr.Problem, data: tr.Rows, method: tr.Method, batch_size: int, steps: int) -> float:
    began = time.process_time()
    tr.minimize(task, data, method=method, steps=steps, batch_size=batch_size, record=4, progress=False)
    return time.process_time() - began


def latency(mesh: Mesh, numbers: int, rounds: int = 2000) -> float:
    """Seconds of one sum over the devices, of so many numbers, in a compiled loop."""
    spec = jax.sharding.PartitionSpec("shards")

    @jax.jit
    def many(v):
        def local(v):
            return jax.lax.fori_loop(0, rounds, lambda _, a: jax.lax.psum(a, "shards") / mesh.size, v)

        return jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)(v)

    sharding = jax.sharding.NamedSharding(mesh, spec)
    whole = np.ones((mesh.size, numbers), np.float32)
    given = jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])
    found = []
    for _ in range(4):
        began = time.perf_counter()
        jax.block_until_ready(many(given))
        found.append((time.perf_counter() - began) / rounds)
    return min(found[1:])


def on_all_devices(n: int = 65_536) -> None:
    """What a step costs on the devices there are, for several batches, and what a collective costs alone."""
    devices, processes = jax.devices(), jax.process_count()
    whole = jax.tree.map(np.asarray, made(n, 8192))
    first, last = (n * (jax.process_index() + k) // processes for k in (0, 1))
    counts = [len(devices)] if processes > 1 else [c for c in (1, 2, 4, 8) if c <= len(devices)]
    for count in counts:
        mesh = Mesh(np.array(devices[:count]), ("rows",))
        data = tr.Rows({name: a[first:last] for name, a in whole.items()}, mesh=mesh)
        flat = Mesh(mesh.devices, ("shards",))
        collectives = [1e6 * latency(flat, numbers) for numbers in (D + 3, 10_000, 1_000_000)]
        steps = [1e6 * seconds_a_step(data, b, max(50, min(4000, 40_000_000 // (b * 100)))) for b in BATCHES]
        if jax.process_index() == 0:
            told = ", ".join(f"{b:,}: {us:,.0f} us" for b, us in zip(BATCHES, steps, strict=True))
            sums = ", ".join(f"{us:,.1f}" for us in collectives)
            print(f"{processes} processes, {count} devices: a step with batches of {told}", flush=True)
            print(f"    a sum of {D + 3}, 10,000 and 1,000,000 numbers: {sums} us", flush=True)


def in_processes() -> None:
    """The same in 1, 2 and 4 processes of this machine."""
    for count in (1, 2, 4):
        launched = [
            sys.executable,
            "-c",
            "from tightrope.__main__ import main; main()",
            "launch",
            "-n",
            str(count),
            "--",
        ]
        subprocess.run([*launched, sys.executable, "-m", "benchmarks.devices", "process"], check=True)


def accelerator(n: int, seconds: float) -> None:
    """Rows made on the device, solved to a certified gap; without a mesh, then on a mesh of this one device.

    Rows are float32 and everything else float64: rounding is counted in the gap, and in float32 it alone is 1e-3.
    """
    jax.config.update("jax_enable_x64", True)
    device, began, task = jax.devices()[0], time.perf_counter(), problem()
    rows = jax.block_until_ready(made(n, max(1, n // 100)))
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(rows))
    print(
        f"{n:,} x {D} rows, {size / 1e9:.1f} GB, on {device.device_kind}, made in {time.perf_counter() - began:.1f} s"
    )
    read = jax.jit(lambda rows: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(rows)))
    best = min(_timed(lambda: read(rows)) for _ in range(4))
    print(f"reading every number once takes {1e3 * best:.1f} ms: {size / best / 1e9:,.0f} GB/s", flush=True)
    jacobian, x = jax.jit(full_jacobian), jnp.ones(D) / D
    one_pass = min(_timed(lambda: jacobian(task, x, rows)) for _ in range(4))
    print(
        f"a pass for values and gradients takes {1e3 * one_pass:.1f} ms: {size / one_pass / 1e9:,.0f} GB/s", flush=True
    )
    few = min(16_384, max(1, n // 2048))
    on_mesh = Mesh(np.array([device]), ("rows",))
    for name, mesh, batch_size, every in (
        ("no mesh", None, few, 512),
        ("no mesh", None, max(1, n // 2048), None),
        ("mesh of one device", on_mesh, few, 512),
    ):
        began = time.perf_counter()
        data = tr.Rows(rows, mesh=mesh)
        print(f"{name}, batches of {batch_size:,}, a pass every {every or n // batch_size:,} steps:")
        print(f"    rows looked through in {time.perf_counter() - began:.1f} s", flush=True)
        for time_of in ("first run", "again"):
            began = time.perf_counter()
            result = tr.minimize(
                task, data, method=tr.SVRGCSOA(refresh_every=every), batch_size=batch_size, tol=TOL, time_limit=seconds,
                progress=False,
            )  # fmt: skip
            took = time.perf_counter() - began
            least = result.cost.gradients / n * best
            print(
                f"    {time_of}: {result.status.name}, gap {result.gap or float('nan'):.2e}, objective "
                f"{result.objective:.6f}, violation {result.violation:.1e}, {result.cost.steps:,} steps, "
                f"{result.cost.gradients / n:.1f} passes, {result.cost.seconds:.2f} s (all {took:.2f} s); to read "
                f"their rows at the bandwidth above takes {least:.2f} s\n        {result.message}",
                flush=True,
            )


def _timed(fn) -> float:
    began = time.perf_counter()
    jax.block_until_ready(fn())
    return time.perf_counter() - began


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("overhead", "devices", "processes", "process", "accelerator"))
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    if asked.what == "process":
        jax.distributed.initialize()
        on_all_devices()
    elif asked.what == "devices" and "--xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
        subprocess.run(
            [sys.executable, "-m", "benchmarks.devices", "devices"], env=os.environ | {"XLA_FLAGS": flags}, check=True
        )
    elif asked.what == "accelerator":
        accelerator(int(asked.rows), asked.seconds)
    else:
        {"overhead": overhead, "devices": on_all_devices, "processes": in_processes}[asked.what]()


if __name__ == "__main__":
    main()
