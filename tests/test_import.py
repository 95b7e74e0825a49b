"""`import tightrope` is cheap: what a run does not need is loaded when it is used, and yet every name is visible."""

import subprocess
import sys

import pytest

import tightrope as tr

HEAVY = ("sklearn", "pandas", "scipy", "rich", "optax", "matplotlib", "typer")


def modules_after(statement: str) -> set[str]:
    """The packages that a fresh process has loaded after a statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_import_loads_nothing_but_itself():
    loaded = modules_after("import tightrope")
    assert "tightrope" in loaded
    assert not loaded & {*HEAVY, "jax", "numpy"}


@pytest.fixture(scope="module")
def used() -> set[str]:
    return modules_after("import tightrope; assert callable(tightrope.minimize)")


@pytest.mark.parametrize("name", HEAVY)
def test_the_first_name_loads_jax_and_nothing_else_that_is_heavy(used, name):
    assert {"jax", "numpy"} <= used
    assert name not in used


def test_help_adds_the_printing_alone():
    ask = "from typer.testing import CliRunner; from tightrope.__main__ import app"
    loaded = modules_after(f"{ask}; assert 'Usage' in CliRunner().invoke(app, ['--help']).stdout")
    assert not loaded & {*HEAVY, "jax", "numpy"} - {"typer", "rich"}


def test_every_name_is_visible_and_there():
    assert set(tr.__all__) <= set(dir(tr))
    assert all(getattr(tr, name) is not None for name in tr.__all__)


def test_a_folder_of_a_wing_is_there_though_nobody_has_loaded_it():
    assert "jax" in modules_after("import tightrope; assert tightrope.theory.RULES")
