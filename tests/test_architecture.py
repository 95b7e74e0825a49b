"""Arrows point up only; registries, docstrings, examples and exports are complete."""

import ast
import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import jax
import pytest

import tightrope as tr

SOURCE = Path(tr.__file__).parent

# From the bottom up; a room imports from itself and from the rooms before it. Rooms of one line do not know each other.
ROOMS = [
    {"_jaxlib", "_errors", "arrow", "columns", "files", "precision", "_threads"},
    {"tree", "_compilation_cache"},
    {"losses", "sets", "sampling", "confidence", "fairness", "datasets"},
    {"problem"},
    {"methods"},
    {"result", "certificate"},
    {"pages"},
    {"loop"},
    {"_minimize", "online", "_sweep", "plotting", "slsqp"},
    {"_certify"},
    {"theory"},
    {"core"},
    {"problems"},
    {"estimators"},
    {"tables"},
    {"experiments"},
    {"cli"},
]
FLOOR = {name: floor for floor, names in enumerate(ROOMS) for name in names}


def modules():
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """The rooms a module imports when it is loaded; not those it needs for types, nor those inside functions."""
    found, todo = set(), list(ast.parse(path.read_text()).body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If):
            todo += [] if "TYPE_CHECKING" in ast.unparse(node.test) else node.body + node.orelse
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tightrope":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("tightrope.")}
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path):
    here = room(path)
    assert here in FLOOR, f"{here} is a new room: say where it stands in ROOMS"
    for other in imported_rooms(path) - {here}:
        assert FLOOR.get(other, len(ROOMS)) < FLOOR[here], f"{here} imports {other}, which does not stand below it"


def test_the_rooms_that_matter_most_know_little():
    for path in modules():
        if room(path) == "sets":
            assert imported_rooms(path) <= {"sets", "tree", "precision", "_errors"}, path
        if room(path) == "methods":
            assert imported_rooms(path) <= {
                "methods",
                "problem",
                "sets",
                "tree",
                "precision",
                "_errors",
                "_threads",
                "_jaxlib",
            }, path
        if path.name in ("steps.py", "driver.py", "run.py"):
            assert "sets" not in imported_rooms(path), path


def test_nothing_depends_on_experiments_and_the_command_line():
    for path in modules():
        if room(path) not in ("experiments", "cli"):
            text = path.read_text()  # not even inside a function
            assert "tightrope.experiments" not in text.replace(">>> from tightrope.experiments", ""), path
            assert "import tightrope.learn.cli" not in text, path


def test_the_reader_of_imports_sees_them():
    assert {"problem", "sampling", "methods"} <= imported_rooms(SOURCE / "loop" / "steps.py")


# ---- registries and exports ------------------------------------------------------------------------------------------


def exported(kind):
    found = {name: getattr(tr, name) for name in tr.__all__}
    return {v for v in found.values() if inspect.isclass(v) and issubclass(v, kind) and not inspect.isabstract(v)}


def test_every_exported_method_and_set_is_registered():
    written = {kind for module in everything() for kind in vars(module).values() if inspect.isclass(kind)}
    written = {
        kind
        for kind in written
        if issubclass(kind, tr.Method) and kind.__module__.startswith("tightrope.methods.") and "name" in vars(kind)
    }
    assert exported(tr.Method) <= set(tr.METHODS.values()) == {kind for kind in written if not inspect.isabstract(kind)}
    assert all(name and kind.name == name for name, kind in tr.METHODS.items())
    assert exported(tr.ConvexSet) == set(tr.SETS.values())


def test_all_is_complete_and_sorted():
    def order(name):  # constants, then classes, then functions, as ruff sorts them
        return (not name.isupper(), not name[0].isupper(), name)

    assert list(tr.__all__) == sorted(tr.__all__, key=order)
    public = {name for name, v in vars(tr).items() if not name.startswith("_") and not inspect.ismodule(v)}
    assert public | {"ConstrainedClassifier", "FairLogisticRegression", "StructuredMatrixCompletion"} == set(
        tr.__all__
    ) - {n for n in tr.__all__ if inspect.ismodule(getattr(tr, n))}


def everything():
    return [tr, *(importlib.import_module(m.name) for m in pkgutil.walk_packages([str(SOURCE)], "tightrope."))]


def test_everything_public_has_a_docstring():
    bare = []
    for module in everything():
        bare += [] if module.__doc__ else [module.__name__]
        own = {k: v for k, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__}
        for name, value in own.items():
            if name.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            # a dataclass without one is given its signature, which says nothing
            if not value.__doc__ or value.__doc__.startswith(f"{name}("):
                bare.append(f"{module.__name__}.{name}")
            if not inspect.isclass(value):
                continue
            for key, member in vars(value).items():
                fn = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                if not key.startswith("_") and inspect.isfunction(fn) and not inspect.getdoc(getattr(value, key)):
                    bare.append(f"{module.__name__}.{name}.{key}")
    assert not bare


# ---- examples --------------------------------------------------------------------------------------------------------


def test_the_examples_in_docstrings_are_right():
    tried = 0
    with jax.enable_x64(False):  # as a reader runs them, and each once
        for module in everything():
            outcome = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
            assert outcome.failed == 0, module.__name__
            tried += outcome.attempted
    assert tried > 20
