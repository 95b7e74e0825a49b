"""What attacks the library knows where things are."""

import csv
import doctest
from pathlib import Path

import pytest

from torture import names, refits
from torture.mutants import __main__ as mutants
from torture.mutants.operators import Mutant


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    """Where attacks are started."""
    monkeypatch.chdir(Path(__file__).parents[1])


def test_mutants_know_the_files_of_the_core_and_their_tests():
    for name in mutants.CORE:
        assert (mutants.PACKAGE / name).exists(), name
    for name in mutants.TESTS:
        assert Path(name).exists(), name
    rooms = {mutants.room_and_place(file)[0] for file in mutants.core()} - {""}
    mirrored = {name.removeprefix("tests/").removeprefix("learn/") for name in mutants.TESTS}
    assert {room.removeprefix("learn/") for room in rooms} <= mirrored
    assert doctest.testmod(mutants).failed == 0


def test_what_is_called_equivalent_is_of_a_file_that_is_there():
    with mutants.EQUIVALENT.open() as file:
        assert all((mutants.PACKAGE / row["file"]).exists() for row in csv.DictReader(file))


def test_tests_that_bear_the_name_of_a_file_come_first():
    def ran(file: str) -> dict:
        return {"seconds": 1.0, "lines": {file: [1, 2]}}

    file = "lab/methods/primal/csa.py"
    names = [
        "tests/test_tree.py::a",
        "tests/lab/methods/test_others.py::b",
        "tests/methods/test_paths.py::c[primal/csa]",
    ]
    mutant = Mutant(file, 1, frozenset({2}), "", "", "", "")
    tests = {name: ran(file) for name in names} | {"tests/test_files.py::d": ran("files.py")}
    assert mutants.tests_of(mutant, tests, 1.0) == names[2:]
    assert mutants.tests_of(mutant, tests, 2.0) == sorted(names[1:])
    assert set(mutants.tests_of(mutant, tests, 9.0)) == set(names)


@pytest.mark.parametrize("kind", range(len(refits.KINDS)), ids=list(refits.KINDS))
def test_an_interrupted_fit_leaves_the_old_model_or_the_new_one(kind):
    """A short draw of `make torture`."""
    tried = range(kind, 4 * len(refits.KINDS), len(refits.KINDS))
    assert [said for said in map(refits.attack, tried) if said] == []


def test_names_are_text_in_every_medium():
    """A short draw of `make torture`, without the commands."""
    tried = [k for k in range(400) if k % names.WHOLE != 7]
    assert [said for said in map(names.attack, tried) if said] == []
