"""The progress bar: on a terminal and in a notebook only, unless asked for."""

import sys
import time
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tightrope.pages.elements import progress

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_PATIENCE = 0.5  # seconds before a notebook shows a bar; a run that is shorter leaves no trace in it; by hand
_PAUSE = 0.1  # seconds between two redrawings of it; by hand


class Progress:
    """Steps taken, objective and worst constraint so far; nothing at all where nobody watches."""

    def __init__(self, total: int, wanted: bool | None, label: str = "steps"):
        self.bar: RichProgress | NotebookBar | None = None
        notebook = in_notebook()
        if wanted or (wanted is None and (notebook or sys.stderr.isatty())):
            self.bar = NotebookBar() if notebook else _bar()
            self.task: Any = self.bar.add_task(label, total=total)
            self.label = label

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def show(self, done: int, objective: float | None = None, h: np.ndarray | None = None) -> None:
        """Move the bar to so many steps, and say how they went."""
        if self.bar is None:
            return
        words = ["steps"] if h is not None else [self.label]
        words += [f"objective {objective:.5g}"] if objective is not None else []
        words += [f"worst constraint {np.max(h):+.3g}"] if h is not None and len(h) else []
        self.bar.update(self.task, completed=done, description="  ".join(words))


class NotebookBar:
    """A bar of HTML in a notebook, with the few calls of rich's that are used here; it goes away when it is done.

    rich has one, too, but shows nothing without ipywidgets.
    """

    def __init__(self):
        self.handle: Any = None
        self.since = self.last = time.monotonic()

    def add_task(self, label: str, total: int) -> int:
        """Say what is counted, and how many there are."""
        self.label, self.total, self.done = label, total, 0.0
        return 0

    def start(self) -> None:
        """Begin to be patient."""
        self.since = time.monotonic()

    def update(
        self, task: int, *, completed: float | None = None, advance: float = 0, description: str | None = None
    ) -> None:
        """Move to so many, or by so many, and say how it goes."""
        self.done = self.done + advance if completed is None else completed
        self.label = self.label if description is None else description
        now = time.monotonic()
        if now - self.since < _PATIENCE or now - self.last < _PAUSE:
            return
        self.last = now
        self._draw(progress(self.done, self.total, self.label))

    def stop(self) -> None:
        """Leave nothing behind."""
        if self.handle is not None:
            self._draw("")

    def _draw(self, made: str) -> None:
        from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

        if self.handle is None:
            self.handle = display(HTML(made), display_id=True)
        else:
            self.handle.update(HTML(made))


def in_notebook() -> bool:
    """Whether a notebook shows what is displayed: a shell of IPython with a kernel behind it."""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


def _bar() -> "RichProgress":
    """A bar on standard error. rich is loaded only where somebody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn()
    # a file shows no moving bar, only what stands there at the end
    return Progress(*columns, console=console, transient=console.is_terminal)
