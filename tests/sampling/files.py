"""A folder of Parquet files, what is in it, and a problem on its rows."""

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tightrope as tr

N, D = 230, 3
A = np.random.default_rng(0).normal(1.0, 1.0, size=(N, D))
COLUMNS = (["a", "b", "c"], "y")
X = np.array([0.4, -0.2, 0.3])


def table(rows=slice(None), **more):
    columns = {**dict(zip("abc", A.T, strict=True)), "y": np.arange(N)}
    return pa.table({name: np.asarray(values)[rows] for name, values in (columns | more).items()})


def written(folder):
    """Two files with row groups of 20 and 30 rows, the last ones shorter."""
    pq.write_table(table(slice(0, 90)), folder / "part-0.parquet", row_group_size=20)
    pq.write_table(table(slice(90, N)), folder / "part-1.parquet", row_group_size=30)
    (folder / "_metadata.parquet").write_bytes(b"left by a writer")
    return folder


def loss(x, theta):
    a, y = theta
    return jnp.logaddexp(0.0, -(a @ x)) + 1e-3 * (y / N) * x[0] ** 2


def bound(x, theta):
    return jnp.stack([theta[0][0] * x[0] - 0.3, theta[0][1] * x[2] - 0.5])


PROBLEM = tr.Problem(loss, bound, tr.L2Ball(3.0, shape=D))


def truth(x):
    """Objective and constraints by NumPy alone."""
    f = np.logaddexp(0.0, -(A @ x)) + 1e-3 * (np.arange(N) / N) * x[0] ** 2
    return f.mean(), np.array([A[:, 0].mean() * x[0] - 0.3, A[:, 1].mean() * x[2] - 0.5])
