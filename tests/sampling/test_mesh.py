"""Rows over a mesh: samples and results do not depend on how many devices there are."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

import tightrope as tr
from tests.sampling.apart import HERE, run
from tightrope.sampling.mesh.turns import _room, starts_of, van_der_corput


@pytest.mark.parametrize(
    "asked",
    [
        ("csoa:2,8", "svrg-csoa:4"),
        pytest.param(
            ("csoa:4", "split-csoa:2,4,8", "fw-csoa:2,4,8", "svrg-csoa:2,8", "resumed"), marks=pytest.mark.slow
        ),
        pytest.param(
            ("csoa:2,4,8:float32", "svrg-csoa:2,4,8:float32", "completion:1,2,8", "sweep:1,2,8"), marks=pytest.mark.slow
        ),
    ],
)
def test_samples_and_results_do_not_depend_on_the_number_of_devices(asked):
    done = run(HERE / "on_devices.py", *asked, devices=8)
    assert done.returncode == 0, done.stderr


def one_device():
    return Mesh(np.array(jax.devices()[:1]), ("rows",))


def test_marks_know_rows_and_not_devices():
    data = tr.Rows(np.arange(100.0), mesh=one_device())
    assert data.content == tr.Rows(np.arange(100.0), mesh=one_device()).content
    other = np.arange(100.0)
    other[70] = -1
    assert data.content != tr.Rows(other, mesh=one_device()).content


@pytest.mark.parametrize("number", [8, 64, 96])
def test_samples_in_a_row_come_from_different_devices(number):
    order = van_der_corput(number)
    assert sorted(order) == list(range(number))
    for devices in (2, 4, 8):
        each = number // devices
        for batch_size in (1, 3, devices, number, 5 * number):
            least = -(-batch_size // devices)
            room = _room(order, each, batch_size)
            exact = number & (number - 1) == 0 and (number % batch_size == 0 or batch_size % number == 0)
            assert room == least if exact else least <= room <= least + 3


def test_shards_differ_by_one_row_at_most():
    for n in (64, 100, 1_000_003, 3_000_000_000):
        starts = starts_of(n, 64)
        assert (starts[0], starts[-1]) == (0, n)
        assert np.ptp(np.diff(starts)) <= 1


def test_bad_input():
    with pytest.raises(ValueError, match="40 rows leave some of 64 logical shards empty"):
        tr.Rows(np.ones(40), mesh=one_device())
    with pytest.raises(TypeError, match=r"mesh is 8; expected a jax\.sharding\.Mesh"):
        tr.Rows(np.ones(100), mesh=8)
    with pytest.raises(ValueError, match="shards is 0"):
        tr.Rows(np.ones(100), mesh=one_device(), shards=0)
    with pytest.raises(ValueError, match="first in row 3"):
        tr.Rows(np.where(np.arange(100) == 3, np.nan, 1.0), mesh=one_device())
    problem, eight = tr.Problem(lambda x, t: x.sum(), None, tr.L2Ball(1.0, shape=2)), 8
    with pytest.raises(TypeError, match=r"sweep: mesh is 8; expected a jax\.sharding\.Mesh"):
        tr.sweep(problem, np.ones(3), tr.CSOA(), steps=1, mesh=eight)  # pyright: ignore[reportArgumentType]
