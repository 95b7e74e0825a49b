"""Compiled programs are kept where asked for, read by other processes, bounded, and never trusted blindly."""

import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import tightrope as tr
from tightrope import _compilation_cache as cache
from tightrope.learn.cli.printing import noted

COMPILES = """
import sys, tightrope as tr
tr.compilation_cache(sys.argv[1], max_bytes=int(sys.argv[2]))
import jax, jax.numpy as jnp
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("/cache_hits") else None)
values = [float(jax.jit(lambda x: jnp.sin(x) * k)(1.0)) for k in range(1, 7)]
print(len(hits), sum(values))
"""


def compiles(folder: Path, max_bytes: int = 2**20, how: str = "error") -> subprocess.Popen:
    """A process that compiles six programs, with warnings as errors."""
    environment = {name: value for name, value in os.environ.items() if name != cache.VARIABLE}
    words = [sys.executable, "-W", how, "-c", COMPILES, str(folder), str(max_bytes)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def said(process: subprocess.Popen) -> tuple[int, float, str]:
    """Programs found in the cache, the sum of their values, and what was written on stderr."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    hits, value = out.split()
    return int(hits), float(value), err


@pytest.mark.slow
def test_other_processes_read_what_one_compiled_and_a_damaged_entry_is_a_miss(tmp_path):
    folder = tmp_path / "programs"
    at_once = [compiles(folder), compiles(folder)]
    _, value, _ = said(at_once[0])
    assert said(at_once[1])[1] == value
    hits, again, err = said(compiles(folder))
    assert hits >= 6
    assert again == value
    assert err == ""
    for entry in folder.glob("*-cache"):
        entry.write_bytes(entry.read_bytes()[:-9])
    hits, again, err = said(compiles(folder, how="default"))
    assert hits == 0
    assert again == value
    assert "Error reading" in err
    bound = 3 * max(entry.stat().st_size for entry in folder.glob("*-cache"))
    said(compiles(folder.with_name("small"), bound))
    kept = [entry.stat().st_size for entry in folder.with_name("small").glob("*-cache")]
    assert kept
    assert sum(kept) <= bound
    assert len(kept) < len(list(folder.glob("*-cache")))


def test_the_command_line_asks_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, "off")
    assert tr.compilation_cache(tmp_path / "never") is None
    environment: dict[str, str] = {}
    cache.turn_on(environment)
    assert environment == {}
    assert not (tmp_path / "never").exists()
    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    cache.turn_on(environment)
    assert environment["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "tightrope" / "programs")
    assert int(environment["JAX_COMPILATION_CACHE_MAX_SIZE"]) > 0
    own = {"JAX_COMPILATION_CACHE_DIR": "/elsewhere"}
    cache.turn_on(own)
    assert own == {"JAX_COMPILATION_CACHE_DIR": "/elsewhere"}
    (tmp_path / "file").touch()
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "below"))
    nowhere: dict[str, str] = {}
    cache.turn_on(nowhere)
    assert nowhere == {}  # a folder that cannot be made is done without


def test_what_was_cut_off_is_cleared_away_and_what_is_damaged_too(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    for name in ("whole-cache", "whole-atime", "cut-cache", "fresh-cache"):
        (tmp_path / name).touch()
    os.utime(tmp_path / "cut-cache", (time.time() - 3600, time.time() - 3600))
    cache.turn_on({})
    assert {file.name for file in tmp_path.iterdir()} == {"whole-cache", "whole-atime", "fresh-cache"}
    notes: list[str] = []
    with noted(notes):
        import warnings

        warnings.warn("Error reading persistent compilation cache entry for 'jit_f': ZlibError", stacklevel=1)
        warnings.warn("a note", stacklevel=1)
    assert notes == ["a note"]
    assert not list(tmp_path.iterdir())


def test_a_slow_first_call_says_so_once(monkeypatch):
    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.setattr(cache, "_LONG", 1e-6)
    monkeypatch.setattr(cache, "_said", [])
    problem = tr.Problem(lambda x, theta: ((x - theta) ** 2).sum(), None, tr.L2Ball(1.0, shape=2))

    def hints(rows: int) -> int:
        notes = tr.minimize(problem, np.ones((rows, 2)), method=tr.CSOA(eta0=0.1), steps=5).notes
        return sum("tr.compilation_cache()" in note for note in notes)

    listeners = jax._src.monitoring.get_event_duration_listeners  # pyright: ignore
    before = list(listeners())
    assert cache._hint(1e-7) is None  # quick enough
    assert [hints(6), hints(7)] == [1, 0]
    assert list(listeners()) == before


def test_max_bytes_is_checked(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    with pytest.raises(ValueError, match="max_bytes is 0"):
        tr.compilation_cache(max_bytes=0)


posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights of another kind")


@posix
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused_and_the_command_line_does_without(tmp_path, monkeypatch, mode):
    folder = tmp_path / "programs"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.delenv(cache.VARIABLE, raising=False)
    with pytest.raises(PermissionError, match=r"others may write to it.*expected a folder of your own.*\.$"):
        tr.compilation_cache(folder)
    monkeypatch.setenv(cache.VARIABLE, str(folder))
    environment = {}
    cache.turn_on(environment)
    assert not environment
    folder.chmod(0o700)
    cache.turn_on(environment)
    assert environment["JAX_COMPILATION_CACHE_DIR"] == str(folder)


@posix
def test_a_folder_in_whose_place_others_may_put_theirs_is_refused(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(PermissionError, match="others may write to it"):
        cache._make_ready(tmp_path / "open" / "programs")
    (tmp_path / "open").chmod(0o1777)  # like /tmp: what is there can be replaced by its owner only
    cache._make_ready(tmp_path / "open" / "programs")
    assert (tmp_path / "open" / "programs").stat().st_mode & 0o777 == 0o700


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("given_away", ["programs", "programs/one-cache"])
def test_what_belongs_to_another_user_is_refused(tmp_path, given_away):
    (tmp_path / "programs").mkdir(mode=0o700)
    (tmp_path / "programs" / "one-cache").touch()
    cache._make_ready(tmp_path / "programs")
    os.chown(tmp_path / given_away, 12345, 12345)
    with pytest.raises(PermissionError, match="belongs to another user"):
        cache._make_ready(tmp_path / "programs")


def test_without_a_home_folder_a_sentence_says_what_to_set(monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    for name in (cache.VARIABLE, "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(FileNotFoundError, match=f"no home folder.*set {cache.VARIABLE} to a folder"):
        tr.compilation_cache()
    environment = {}
    cache.turn_on(environment)
    assert not environment
