"""The driver alone, on a program that only counts: when it refreshes, how far it goes, which step it calls bad."""

from typing import Any

import pytest

from tightrope.loop.driver import Driver, NotFiniteError, Position
from tightrope.sampling import Buffer, Draws


class Counting:
    """A program whose carry is the list of all that happened, and whose values are not finite from a step on."""

    def __init__(self, bad=10**9):
        self.bad = bad

    def refresh(self, carry: Any) -> Any:
        return [*carry, "refresh"]

    def advance(self, carry: Any, buffer: Buffer, first: int, count: int) -> tuple[Any, Any, bool]:
        steps = list(range(first, first + count))
        return [*carry, *steps], {"last": steps[-1]}, first + count <= self.bad


class Blocks(Draws):
    """Buffers of at most `length` steps, aligned, until the samples end."""

    def __init__(self, length, end=10**9):
        self.length, self.end = length, end

    def take(self, t, count):
        return Buffer((), 0, max(0, min(count, self.length - t % self.length, self.end - t)))


def go(driver, end, position=None):
    """Chunk after chunk; the position and the steps at which a chunk ended."""
    position, stops = position or Position([], 0), []  # pyright: ignore[reportArgumentType]
    while position.step < end:
        position = driver.chunk(position, end)
        stops.append(position.step)
    return position, stops


def test_it_looks_at_all_the_data_before_every_period_and_never_steps_across_one():
    position, stops = go(Driver(Counting(), Blocks(5), refresh_every=4), 10)
    assert position.carry == ["refresh", 0, 1, 2, 3, "refresh", 4, 5, 6, 7, "refresh", 8, 9]
    assert stops == [4, 5, 8, 10]
    assert position.record == {"last": 9}


def test_without_a_period_buffers_alone_decide():
    assert go(Driver(Counting(), Blocks(4)), 10)[1] == [4, 8, 10]


def test_a_refresh_is_done_again_where_the_steps_after_it_were_not_taken():
    driver = Driver(Counting(), Blocks(8), refresh_every=4)
    position = driver.chunk(Position([], 0), 4)  # pyright: ignore[reportArgumentType]
    assert driver.refreshed(position)[-1] == "refresh"  # and is dropped, as by an interrupt
    assert driver.chunk(position, 6).carry == ["refresh", 0, 1, 2, 3, "refresh", 4, 5]


@pytest.mark.parametrize("bad", range(12))
def test_the_first_bad_step_is_found_and_the_last_good_position_is_kept(bad):
    driver = Driver(Counting(bad), Blocks(5), refresh_every=6)
    with pytest.raises(NotFiniteError) as caught:
        go(driver, 20)
    error = caught.value
    assert error.step == bad + 1  # counted from 1
    assert error.good.step == bad
    assert [k for k in error.good.carry if k != "refresh"] == list(range(bad))
    assert [k for k in error.broken if k != "refresh"] == list(range(bad + 1))


def test_where_the_samples_have_ended_the_position_stays():
    driver = Driver(Counting(), Blocks(4, end=6))
    position = driver.chunk(driver.chunk(Position([], 0), 10), 10)  # pyright: ignore[reportArgumentType]
    assert position.step == 6
    assert driver.chunk(position, 10) is position
