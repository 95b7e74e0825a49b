"""Compiled programs kept for later processes, by JAX's own persistent compilation cache.

That cache is global to a process, so the library leaves it alone: the command line turns it on for itself, a user by calling
`tr.compilation_cache()`, and the first run that compiles for long says that there is such a thing.
"""

import contextlib
import functools
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from tightrope.result import Result

VARIABLE = "TIGHTROPE_COMPILATION_CACHE"  # "off", or the folder
_MOST_BYTES = 2**28  # bytes of compiled programs that are kept unless told otherwise; by hand
_LONG = 1.0  # seconds of compiling that a user feels; by hand
_UNFINISHED = 60.0  # seconds after which nobody is still writing an entry; by hand

P = ParamSpec("P")


def compilation_cache(folder: str | Path | None = None, *, max_bytes: int = _MOST_BYTES) -> Path | None:
    """Keep compiled programs in a folder, for this process and later ones.

    Most of what a first call costs is compilation, which a second process then reads instead. This turns on JAX's persistent
    compilation cache, for everything that JAX compiles in this process from now on. Its entries depend on the program, the
    versions of JAX and XLA and the machine, so a folder may be shared by all of them and by processes that run at once;
    an entry that cannot be read is compiled again. What lies there is run as it is, so a folder in which anybody but you (or
    root) may write is refused. Call it before JAX is imported: XLA then writes no lines about
    every program that it loads.

    Args:
        folder: where; by default what the environment variable TIGHTROPE_COMPILATION_CACHE says, or a folder in the user's
            cache directory. That variable set to "off" turns this call into none.
        max_bytes: how large the folder may become; what was not used for longest goes first.

    Returns:
        The folder; None where the environment variable says "off".

    Example:
        >>> import tightrope as tr
        >>> tr.compilation_cache("programs")  # doctest: +SKIP
        PosixPath('programs')
    """
    if _off():
        return None
    if not (folder is None or isinstance(folder, str | os.PathLike)):
        raise TypeError(f"compilation_cache: folder is {folder!r}; expected the path of a folder, or None.")
    where = _folder() if folder is None else Path(folder)
    try:
        _make_ready(where)
    except OSError as error:
        raise type(error)(f"compilation_cache: {_why(error, where)} Give another folder.") from error
    if "jaxlib" not in sys.modules:
        _silence(os.environ)
    import jax
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    from tightrope._errors import whole_number

    for name, value in _options(where, whole_number("compilation_cache", "max_bytes", max_bytes)).items():
        jax.config.update(name, value)
    reset_cache()  # another folder may have been open
    return where


def turn_on(environment: "os._Environ[str] | dict[str, str]") -> None:
    """The same for a process that has not imported JAX and may never do so: by the environment, where JAX will look.

    A user's own settings are left as they are, and a folder that cannot be made, or that others may write to, is done
    without.
    """
    if _off() or "JAX_COMPILATION_CACHE_DIR" in environment:
        return
    try:
        where = _folder()
        _make_ready(where)
    except OSError:
        return
    _silence(environment)
    for name, value in _options(where, _MOST_BYTES).items():
        environment.setdefault(name.upper(), str(value))


def _off() -> bool:
    return os.environ.get(VARIABLE, "").lower() in ("off", "0", "no", "false")


def _folder() -> Path:
    """Where caches are kept on this system, unless the variable says where."""
    given = os.environ.get(VARIABLE)
    try:
        return Path(given).expanduser() if given else _usual()
    except RuntimeError as error:  # pathlib's, where neither HOME nor the system says
        raise FileNotFoundError(f"there is no home folder to keep programs in; set {VARIABLE} to a folder.") from error


def _usual() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tightrope" / "programs"


def folder_in_use() -> Path | None:
    """The folder where this process keeps compiled programs, or where an earlier one did; None where there is none, or
    others may write to it."""
    import jax

    if _off():
        return None
    try:
        folder = Path(jax.config.jax_compilation_cache_dir or _folder())  # pyright: ignore[reportAttributeAccessIssue]
        _refuse_if_others_write(folder)
    except OSError:
        return None
    return folder if folder.is_dir() else None


def _options(folder: Path, max_bytes: int) -> dict[str, Any]:
    return {
        "jax_compilation_cache_dir": str(folder),
        "jax_compilation_cache_max_size": max_bytes,
        "jax_persistent_cache_min_compile_time_secs": 0.0,  # a first call is made of many short ones
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }


def _silence(environment: "os._Environ[str] | dict[str, str]") -> None:
    """XLA calls its own tuning flags "machine features" that are missing when it loads a program: for nothing, since the
    true ones are part of an entry's key. It reads its log level once, when it is loaded; 1 is what JAX writes there."""
    if environment.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":
        environment["TF_CPP_MIN_LOG_LEVEL"] = "3"


def _make_ready(folder: Path) -> None:
    """Make the folder, and clear away entries whose writing was cut off: JAX notes their last use when they are whole, and
    could never again make room where such a note is missing."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_if_others_write(folder)
    for entry in folder.glob("*-cache"):
        whole = entry.with_name(entry.name.removesuffix("-cache") + "-atime").exists()
        with contextlib.suppress(FileNotFoundError):  # another process was quicker
            if not whole and time.time() - entry.stat().st_mtime > _UNFINISHED:
                entry.unlink()


def _refuse_if_others_write(folder: Path) -> None:
    """A compiled program is code, and whoever can put one into the folder has it run by whoever reads it: the folder and
    what lies in it belong to this user or to root, nobody else may write there, and nobody may put another folder in its
    place."""
    if not hasattr(os, "geteuid"):  # Windows has other rights; by default a user's folders are the user's there
        return
    trusted, folder = (os.geteuid(), 0), folder.resolve()
    for place in (folder, *folder.parents):
        about = place.stat()
        others = 0o022 if place == folder else 0o002 if not about.st_mode & stat.S_ISVTX else 0
        if about.st_uid not in trusted or about.st_mode & others:
            raise PermissionError(_not_ours(folder, place))
    for entry in folder.glob("*-cache"):
        with contextlib.suppress(FileNotFoundError):  # another process has made room
            if entry.lstat().st_uid not in trusted:
                raise PermissionError(_not_ours(folder, entry))


def _not_ours(folder: Path, place: Path) -> str:
    return (
        f"{place} belongs to another user, or others may write to it. Compiled programs are code, so none are kept in or "
        f"read from {folder}; expected a folder of your own in which nobody else may write."
    )


def _why(error: OSError, folder: Path) -> str:
    """A system's error as a sentence; one of this file's is one."""
    return str(error) if error.errno is None else f"{folder} cannot be used ({error.strerror})."


def mended(warning: str) -> bool:
    """Whether a warning is JAX's about an entry that it could not read or write. JAX compiled without it, but would never
    replace it: a folder with a damaged entry is emptied."""
    if warning.startswith("Error reading persistent compilation cache entry") and not _off():
        where = _folder()
        for file in (*where.glob("*-cache"), *where.glob("*-atime")):  # not what else may lie there
            with contextlib.suppress(OSError):
                file.unlink()
    return warning.startswith(("Error reading persistent compilation", "Error writing persistent compilation"))


# ---- the hint ---------------------------------------------------------------------------------------------------------


def hints_at_cache(run: "Callable[P, Result]") -> "Callable[P, Result]":
    """The function with a note in its report, once in a process, if compiling took long and nothing is kept of it."""

    @functools.wraps(run)
    def hinting(*args: P.args, **kwargs: P.kwargs) -> "Result":
        import dataclasses

        with _compiling() as seconds:
            result = run(*args, **kwargs)
        note = _hint(sum(seconds))
        return result if note is None else dataclasses.replace(result, notes=(*result.notes, note))

    return hinting


@contextlib.contextmanager
def _compiling() -> Iterator[list[float]]:
    """How long XLA compiles within the block, program by program, in seconds."""
    import jax

    seconds: list[float] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            seconds.append(duration_secs)

    try:
        jax.monitoring.register_event_duration_secs_listener(listen)
        yield seconds
    finally:
        with contextlib.suppress(AssertionError):  # an interrupt came first, or somebody has cleared all listeners
            jax.monitoring.unregister_event_duration_listener(listen)


_said: list[str] = []


def _hint(seconds: float) -> str | None:
    import jax

    kept = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if seconds < _LONG or _said or kept or _off():
        return None
    _said.append(
        f"{seconds:.1f} s of this call went into compiling; tr.compilation_cache() keeps the programs for later."
    )
    return _said[0]
