"""Calls in several threads at once, and after a fork: nothing of one shows in another."""

import os
import threading

import pytest
import scipy.linalg  # noqa: F401 (whose BLAS is looked at)
from threadpoolctl import threadpool_info

from tightrope import _errors
from tightrope._errors import plain_errors
from tightrope._threads import one_thread


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_the_limit_on_threads_is_lifted_by_the_last_who_wanted_it():
    before = blas_threads()
    first, second = one_thread(), one_thread()
    with first:
        second.__enter__()
        assert blas_threads() == {1}
    assert blas_threads() == {1}, "the second is still inside"
    second.__exit__(None, None, None)
    assert blas_threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning", "ignore:os.fork:RuntimeWarning")
def test_a_forked_process_does_not_wait_for_threads_it_does_not_have():
    before, inside, leave = blas_threads(), threading.Event(), threading.Event()

    def hold():
        with one_thread(), plain_errors(), _errors._calls.lock:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        free = blas_threads() == before and _errors._calls.lock.acquire(timeout=5)
        os._exit(0 if free else 1)
    leave.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_what_one_call_failed_with_is_not_taken_from_another():
    error = _errors.UnreadableError("rows.parquet is cut.")

    def call():
        with plain_errors():
            _errors.failures.append(error)
            with plain_errors():  # another call begins and ends meanwhile
                pass
            raise RuntimeError(f"callback: {error}")

    with pytest.raises(_errors.UnreadableError, match=r"^rows.parquet is cut\.$"):
        call()
    assert not _errors.failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("begun", [True, False])
def test_a_process_that_was_forked_from_one_that_computed_refuses_and_does_not_hang(begun, monkeypatch):
    monkeypatch.setattr("jax._src.xla_bridge.backends_are_initialized", lambda: begun)
    child = os.fork()
    if child == 0:
        try:
            with plain_errors():
                os._exit(0)
        except RuntimeError as error:
            os._exit(1 if "'spawn'" in str(error) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (1 if begun else 0)
