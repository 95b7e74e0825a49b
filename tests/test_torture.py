"""What attacks the library knows where things are."""

import argparse
import csv
import doctest
import os
import random
import warnings
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import tightrope as tr
from torture import __main__ as runner
from torture import campaign, configs, disk, interrupts, names, parquet, refits, rights, sizes, threads
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


@pytest.mark.parametrize("name", interrupts.CALLS)
def test_no_call_goes_on_after_ctrl_c(name):
    """A short draw of `make torture`."""
    kinds = list(interrupts.CALLS)
    tried = range(kinds.index(name), 6 * len(kinds), len(kinds))
    assert [said for said in map(interrupts.attack_call, tried) if said] == []


def test_parquet_files_are_read_as_they_are_or_refused():
    """A short draw of `make torture`, without the runs over a mesh but one."""
    tried = [k for k in range(150) if k == 59 or k % parquet.RUN_EVERY != parquet.RUN_EVERY - 1]
    assert [said for said in map(parquet.attack, tried) if said] == []


def test_names_are_text_in_every_medium():
    """A short draw of `make torture`, without the commands."""
    tried = [k for k in range(400) if k % names.WHOLE != 7]
    assert [said for said in map(names.attack, tried) if said] == []


# ---- short draws: each program finds nothing in a few attacks ---------------------------------------------------------


@pytest.fixture
def quiet():
    """Programs attack outside pytest, where warnings are no errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_the_runner_knows_all_programs_and_reads_what_they_say():
    known = set(runner.programs())
    assert {"kills", "sizes", "threads", "disk", "rights", "configs", "arguments"} <= known
    assert not known & {"campaign", "mutants"}
    assert all(
        "campaign(" in text or "watched(" in text for text in (Path(f"torture/{n}.py").read_text() for n in known)
    )
    assert doctest.testmod(runner).failed == 0


def test_the_smallest_case_has_no_part_too_many():
    def fails(parts):
        return ", ".join(parts) if {"a", "c"} <= set(parts) else None

    assert campaign.smallest(["a", "b", "c", "d"], fails) == "a, c"
    assert campaign.smallest(["b"], fails) is None


def test_only_the_librarys_own_sentences_count_as_sentences():
    def error_of(call):
        with pytest.raises(Exception) as caught:  # noqa: PT011 (of any kind)
            call()
        return caught.value

    assert campaign.is_sentence(error_of(lambda: tr.L2Ball(-1.0)))
    assert not campaign.is_sentence(error_of(lambda: np.zeros(3).reshape(2, 2)))
    assert not campaign.is_sentence(error_of(lambda: {}["x"]))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_an_attack_that_hangs_floods_or_crashes_is_a_failure_and_the_next_one_is_tried(tmp_path, monkeypatch, capsys):
    (tmp_path / "victim.py").write_text(VICTIM)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.getcwd(), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(campaign, "SECONDS", 0.3)
    monkeypatch.setattr(campaign, "MEGABYTES", 100)
    asked = argparse.Namespace(watched=False, first=0, count=5, seconds=None)
    with pytest.raises(SystemExit, match="1"):
        campaign.watched("victims", asked, "victim", lambda k: None)
    said = capsys.readouterr().out
    assert "victims: 5 tried, 4 failed" in said
    for words in ("attack 1: went on", "attack 2: took more than 100 MB", "attack 3: the process ended with 3", "four"):
        assert words in said


VICTIM = """
import os
from torture.campaign import options, watched

def attack(k):
    if k == 1:
        while True: pass
    if k == 2:
        kept = bytes(10**9)
        while kept: kept = bytearray(10**9)
    if k == 3:
        os._exit(3)
    return "four" if k == 4 else None

watched("victims", options(5), "victim", attack)
"""


@pytest.mark.usefixtures("quiet")
def test_sizes_that_cannot_be_are_refused_or_taken():
    skipped = (sizes.a_stream, sizes.a_problem, sizes.a_completion)  # which compile a program for every size
    calls = list(sizes.CALLS)
    assert not [said for k in range(60) if calls[k % len(calls)] not in skipped and (said := sizes.attack(k))]


@pytest.mark.usefixtures("quiet")
def test_two_threads_at_once_get_what_one_gets_alone():
    before = threads.standing()
    assert threads.both([("csoa", False), ("csoa", True)], afresh=True) is None
    assert threads.both([("sqp", True), ("csoa", False)]) is None
    assert threads.standing() == before


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("setting", ["jax_transfer_guard", "jax_numpy_dtype_promotion", "jax_debug_nans"])
def test_a_run_heeds_no_setting_that_is_not_meant_for_it(setting):
    value = configs.SETTINGS[setting][-1]
    assert configs.fails("csoa", [(setting, value)]) is None


@pytest.mark.usefixtures("quiet")
def test_a_run_can_be_looked_into_without_compiling():
    with jax.disable_jit():
        assert np.all(np.isfinite(tr.minimize(campaign.PROBLEM, campaign.ROWS[:6], method="csoa", steps=1).x))


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    "fault", [rights.jumping_clock, rights.foreign_cache, rights.no_home], ids=lambda f: f.__name__
)
def test_faults_of_the_machine_end_in_a_sentence(fault):
    if fault is rights.foreign_cache and not hasattr(os, "geteuid"):
        pytest.skip("rights of another kind")
    assert [fault(random.Random(k)) for k in range(2)] == [None, None]


@pytest.mark.usefixtures("quiet")
def test_a_disk_that_is_full_at_a_random_byte_costs_nothing(monkeypatch):
    def write(file, newer):
        disk.write_table(file, pd.DataFrame({"a": range(50 + 50 * newer)}))

    monkeypatch.setattr(disk, "models", lambda: {"part.csv": disk.Kind(write, Path.read_bytes), "run.ckpt": RUN})
    monkeypatch.setattr(disk, "_kinds", {})
    monkeypatch.setattr(disk, "_known", {})
    monkeypatch.setattr(disk, "NAMES", ("part.csv", "run.ckpt"))
    assert not [said for k in range(30) if (said := disk.attack(k))]


RUN = disk.Kind(disk.run, lambda file: disk.run(file, True))
