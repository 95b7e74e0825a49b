"""What goes wrong, as one sentence and an exit code: 1 for an error, 2 for wrong options, 130 for Ctrl-C."""

import contextlib
import multiprocessing
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

from tightrope.learn.cli.printing import say

_DEBUG = "tightrope.debug"
PATIENCE = 2.0  # seconds from a Ctrl-C to the end; a guess at what a person waits for


class Stopped(BaseException):
    """Ctrl-C. Not a KeyboardInterrupt, which a run answers by returning what it has: a model has to be whole."""


class UsageError(ValueError):
    """Options that contradict each other."""


class Commands(TyperGroup):
    """The commands; what the library refuses becomes one sentence, and no traceback unless asked for."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, Stopped) as error:
            _fail("Interrupted.", 130, error)
        except UsageError as error:
            _fail(str(error), 2, error)
        except BrokenPipeError as error:  # a reader such as `head` has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from error
        except (typer.Exit, typer.Abort):
            raise
        except (ValueError, TypeError, OSError, ImportError) as error:
            _fail(str(error), 1, error, ctx.meta.get(_DEBUG, False))
        except (RuntimeError, LookupError, ArithmeticError, MemoryError) as error:
            what = f"Something unexpected: {type(error).__name__}: {error}."
            where = "Run again with --debug to see where it comes from."
            _fail(f"{what} {where}", 1, error, ctx.meta.get(_DEBUG, False))


def _fail(sentence: str, code: int, error: BaseException, debug: bool = False) -> NoReturn:
    if debug:
        traceback.print_exception(error)
    say(sentence, "red")
    raise typer.Exit(code) from error


def _remember(ctx: typer.Context, debug: bool) -> bool:
    ctx.meta[_DEBUG] = debug or ctx.meta.get(_DEBUG, False)
    return debug


Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.", callback=_remember)]
"""The option --debug, which may stand before a command and after it."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C stops everything, where a run would answer it by returning what it has."""
    with contextlib.ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGINT, _stop)
            stack.callback(signal.signal, signal.SIGINT, before)
        yield


def _stop(*_: object) -> NoReturn:
    raise Stopped


@contextlib.contextmanager
def ends_when_interrupted() -> Iterator[None]:
    """After Ctrl-C the process ends with 130: when its command has ended, after two seconds, or at a second Ctrl-C,
    whichever comes first.

    Python hears of a signal only between two of its own instructions, and a program may be compiled for longer than that;
    threads in compiled code can be neither stopped nor waited for, and to take the interpreter down around them is an
    abort. A Ctrl-C that falls into a callback of the garbage collector is ignored, even. So another thread hears of the
    signal, and the process is left and not taken down. No file suffers: each is written beside its place and moved there.
    """
    heard, told = os.pipe()
    os.set_blocking(told, False)
    interrupted = threading.Event()

    def listen() -> None:
        while os.read(heard, 1) != bytes([signal.SIGINT]):
            pass
        interrupted.set()
        again, _, _ = select.select([heard], [], [], PATIENCE)
        if not again:
            say("Interrupted.", "red")
        _leave()

    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    sys.unraisablehook = _unless_interrupted
    threading.Thread(target=listen, daemon=True).start()
    try:
        yield
    except SystemExit as end:
        if end.code == 130 or interrupted.is_set():
            _leave()
        raise
    finally:
        signal.set_wakeup_fd(before)
        sys.unraisablehook = sys.__unraisablehook__


def _unless_interrupted(unraisable: Any) -> None:
    if not isinstance(unraisable.exc_value, (KeyboardInterrupt, Stopped)):
        sys.__unraisablehook__(unraisable)


def _leave() -> NoReturn:
    for child in multiprocessing.active_children():
        child.kill()  # it would wait for work for ever
    with contextlib.suppress(OSError, ValueError):  # nobody may be left to read
        Console(stderr=True).show_cursor()  # a progress bar has hidden it
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(130)
