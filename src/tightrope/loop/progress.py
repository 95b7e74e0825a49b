"""The progress bar: on a terminal only, unless asked for."""

import sys
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


class Progress:
    """Steps taken, objective and worst constraint so far; nothing at all where nobody watches."""

    def __init__(self, total: int, wanted: bool | None, label: str = "steps"):
        self.bar: RichProgress | None = None
        if wanted or (wanted is None and sys.stderr.isatty()):
            self.bar = _bar()
            self.task = self.bar.add_task(label, total=total)

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
        words = ["steps"] if h is not None else [str(self.bar.tasks[self.task].description)]
        words += [f"objective {objective:.5g}"] if objective is not None else []
        words += [f"worst constraint {np.max(h):+.3g}"] if h is not None and len(h) else []
        self.bar.update(self.task, completed=done, description="  ".join(words))


def _bar() -> "RichProgress":
    """A bar on standard error. rich is loaded only where somebody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn()
    # a file shows no moving bar, only what stands there at the end
    return Progress(*columns, console=console, transient=console.is_terminal)
