"""A status knows itself: its sentence and what it implies are one line of `result.py`, and no other file lists statuses."""

import ast
from pathlib import Path

import pytest

import tightrope as tr

SOURCE = Path(tr.__file__).parent


@pytest.mark.parametrize("status", tr.Status, ids=lambda status: status.name)
def test_every_status_is_a_sentence_and_does_not_contradict_itself(status):
    first = status.value.split()[0].strip(",:;")
    assert first in {"finished", "fed", "solved", "not", "stopped", "interrupted", "certified", "contradiction"}
    assert not status.value.endswith(".")  # a report adds the full stop
    assert not (status.ended_well and (status.went_wrong or status.gap_too_large))
    assert not (status.proven and status.unproven)
    assert status.ended_well or not (status.proven or status.certified)
    assert status.went_wrong or not (status.no_point or status.unproven)
    assert tr.Status(status.value) is status  # so that a pickle gives the same one back


def test_what_statuses_imply():
    assert tr.Status.SOLVED.proven
    assert tr.Status.CONTRADICTION.went_wrong
    assert tr.Status.INFEASIBLE.no_point
    assert tr.Status.ASYMPTOTIC.certified
    assert not tr.Status.ASYMPTOTIC.proven
    assert tr.Status.NOT_CONVERGED.budget_spent
    assert tr.Status.STALLED.gap_too_large
    assert not tr.Status.INTERRUPTED.ended_well
    assert not tr.Status.INTERRUPTED.went_wrong


def statuses(node: ast.AST) -> list[str]:
    """The statuses that are written in a set, a tuple, a list, or as keys of a dictionary."""
    named = {ast.Set: "elts", ast.Tuple: "elts", ast.List: "elts", ast.Dict: "keys"}
    items = getattr(node, named.get(type(node), ""), [])
    return [
        item.attr
        for item in items
        if isinstance(item, ast.Attribute) and ast.unparse(item.value).split(".")[-1] == "Status"
    ]


def test_statuses_are_listed_in_result_alone():
    """Whoever lists statuses elsewhere forgets the next one: a property of `Status` says what they have in common."""
    for path in SOURCE.rglob("*.py"):
        if path != SOURCE / "result.py":
            listed = [found for node in ast.walk(ast.parse(path.read_text())) if len(found := statuses(node)) > 1]
            assert not listed, f"{path} lists {listed}; expected a property of Status"


def test_the_reader_of_lists_sees_them():
    for written in ("{Status.A, Status.B}", "(tr.Status.A, Status.B, *c)", "{Status.A: 1, Status.B: 2}"):
        assert any(statuses(node) == ["A", "B"] for node in ast.walk(ast.parse(written)))
