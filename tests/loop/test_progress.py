"""A bar in a notebook: only where a kernel is, patient, escaped, and gone at the end."""

import sys
import types

import numpy as np
import pytest

from tightrope.loop import progress
from tightrope.loop.progress import Progress, in_notebook


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


def test_a_short_run_leaves_nothing_in_a_notebook(notebook):
    with Progress(200, None) as bar:
        bar.show(200)
    with Progress(200, False) as bar:
        bar.show(200)
    assert notebook == []
