"""The bars of progress: one of HTML for a notebook, and rich's for a terminal."""

import time
from typing import TYPE_CHECKING, Any

from tightrope.pages.elements import progress

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_PATIENCE = 0.5  # seconds before a notebook shows a bar; a run that is shorter leaves no trace in it; by hand
_PAUSE = 0.1  # seconds between two redrawings of it; by hand


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


def terminal_bar() -> "RichProgress":
    """A bar on standard error. rich is loaded only where somebody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn()
    # a file shows no moving bar, only what stands there at the end
    return Progress(*columns, console=console, transient=console.is_terminal)
