"""A bar in a notebook: only where a kernel is, patient, escaped, and gone at the end."""

import sys
import time
import types

import numpy as np
import pytest

from tightrope.loop import progress, record
from tightrope.loop.record import Progress, in_notebook


@pytest.fixture
def notebook(monkeypatch):
    """A stand-in for IPython with a kernel; what was displayed, in order."""
    shown = []

    class Handle:
        def update(self, made):
            shown.append(made)

    def display(made, display_id):
        shown.append(made)
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # pyright: ignore[reportAttributeAccessIssue]
    displaying = types.ModuleType("IPython.display")
    displaying.HTML, displaying.display = str, display  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displaying)
    return shown


def test_a_notebook_is_told_by_its_kernel(notebook, monkeypatch):
    assert in_notebook()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    assert not in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()


def test_a_notebook_shows_a_bar_that_goes_away(notebook, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_PAUSE", 0.0)
    with Progress(200, None) as bar:
        bar.show(50, 1.5, np.array([-0.25, 0.5]))
        bar.show(100)
    assert 'value="50" max="200"' in notebook[0]
    assert "objective 1.5  worst constraint +0.5" in notebook[0]
    assert "100 of 200 steps" in notebook[1]
    assert notebook[2:] == [""]


def test_a_bar_says_how_it_goes(monkeypatch):
    said, clock = [], [0.0]
    bar = progress.NotebookBar()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(record, "in_notebook", lambda: True)
    monkeypatch.setattr(progress.NotebookBar, "_draw", lambda self, made: said.append(made))
    monkeypatch.setattr(progress, "progress", lambda *given: given)
    shown = record.Progress(40, None, "things")
    assert isinstance(shown.bar, progress.NotebookBar)
    with shown:
        clock[0] = 0.49
        shown.show(1)
        clock[0] = 0.5
        shown.show(2)
        clock[0] = 0.59
        shown.show(3)
        clock[0] = 0.61
        shown.show(4, 1.25, np.array([0.5, -2.0]))
        clock[0] = 0.8
        shown.show(5, None, np.zeros(0))
        clock[0] = 1.0
        shown.bar.update(0, advance=3)
    assert said == [
        (2, 40, "things"), (4, 40, "steps  objective 1.25  worst constraint +0.5"), (5, 40, "steps"), (8, 40, "steps"),
    ]  # fmt: skip
    monkeypatch.setattr(progress, "_PAUSE", 0.125)  # which a clock can show exactly
    for clock[0] in (2.0, 2.125, 2.25 - 2**-20, 2.25):
        shown.bar.update(0, completed=clock[0])
    assert [given[0] for given in said[4:]] == [2.0, 2.125, 2.25]
    assert bar.add_task("a", 3) == 0
    monkeypatch.setattr(record, "in_notebook", lambda: False)
    monkeypatch.setattr(record.sys, "stderr", types.SimpleNamespace(isatty=lambda: False))
    assert record.Progress(4, None).bar is None
    assert record.Progress(4, False).bar is None


def test_a_bar_is_on_standard_error_and_stays_in_files():
    bar = progress.terminal_bar()
    assert bar.console.stderr
    assert bar.live.transient is bar.console.is_terminal
    assert len(bar.columns) == 4


def test_a_short_run_leaves_nothing_in_a_notebook(notebook):
    with Progress(200, None) as bar:
        bar.show(200)
    with Progress(200, False) as bar:
        bar.show(200)
    assert notebook == []
