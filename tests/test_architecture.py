"""Arrows point up only; registries, docstrings, examples and exports are complete."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import jax
import pytest

import tightrope as tr
from tightrope.problem.nested import Nested
from tightrope.problem.oracle import FromOracle
from tightrope.sets.base import Kernel

SOURCE = Path(tr.__file__).parent

# Three wings: the engine, what people with tables use, what people who compare use. A wing knows those below it only.
ENGINE = [
    {"_compilation_cache", "_errors", "_limits", "aside", "columns", "given", "names", "precision", "_threads"},
    {"files"},
    {"_self_test"},
    {"_jaxlib"},
    {"tree"},
    {"losses", "sets", "sampling", "confidence"},
    {"problem"},
    {"methods"},
    {"solvers"},
    {"result", "certificate"},
    {"pages"},
    {"evidence"},
    {"loop"},
    {"_minimize", "online", "_sweep", "plotting"},
    {"_certify"},
    {"core"},
]
LEARN = [
    {"learn.sentences", "learn.loss"},
    {"learn.parameters", "learn.runs", "learn.model_file", "learn.drawn", "learn.fairness", "learn.datasets"},
    {"learn.problems"},
    {"learn.fair"},
    {"learn.constrained", "learn.completion"},
    {"learn.tables"},
    {"learn.cli"},
]
LAB = [
    {"lab.methods"},
    {"lab.theory", "lab.slsqp"},
    {"lab.problems"},
    {"lab.work"},
    {"lab.leaderboard", "lab.paper"},
    {"lab.cli"},
]
FLOOR = {name: floor for floor, names in enumerate([*ENGINE, *LEARN, *LAB]) for name in names}
# Names that users have: each hands on those of a wing, and nothing in the package imports from it.
DOORS = {"__main__", "datasets", "estimators", "fairness", "metrics", "problems", "slsqp", "theory"}


def modules():
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py" and door(path) not in DOORS)


def door(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix().removesuffix(".py")


def room(module: str) -> str:
    """The room of a module without the package's name: the first word, and in a wing the first two."""
    parts = module.split(".")
    return ".".join(parts[: 2 if parts[0] in ("learn", "lab") else 1])


def room_of(path: Path) -> str:
    return room(door(path).replace("/", ".").removesuffix(".__init__"))


def imported_rooms(path: Path, inside: bool = False) -> set[str]:
    """The rooms a module imports: when it is loaded or, `inside`, ever. Imports for types do not count."""
    found, todo = set(), list[Any](ast.parse(path.read_text()).body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tightrope":
            parent = node.module.removeprefix("tightrope").removeprefix(".")
            within = "" if parent not in ("", "learn", "lab") else f"{parent}." if parent else "."
            found |= {room((within + alias.name).strip(".")) for alias in node.names} if within else {room(parent)}
        elif isinstance(node, ast.Import):
            found |= {room(a.name.removeprefix("tightrope.")) for a in node.names if a.name.startswith("tightrope.")}
        elif isinstance(node, ast.If | ast.Try) or inside:
            todo += list[Any](ast.iter_child_nodes(node))
    return found - {"__version__"}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path):
    here = room_of(path)
    if here in ("learn", "lab"):
        assert not imported_rooms(path, inside=True), "a wing itself loads nothing"
        return
    assert here in FLOOR, f"{here} is a new room: say where it stands"
    for other in imported_rooms(path) - {here}:
        assert FLOOR.get(other, len(FLOOR)) < FLOOR[here], f"{here} imports {other}, which does not stand below it"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_wing_knows_the_next_one_not_even_inside_a_function(path):
    wing, known = room_of(path).split(".")[0], {other.split(".")[0] for other in imported_rooms(path, inside=True)}
    if wing != "lab":
        assert "lab" not in known
    if wing not in ("learn", "lab"):
        assert "learn" not in known
    assert not known & DOORS


def test_the_rooms_that_matter_most_know_little():
    for path in modules():
        if room_of(path) == "sets":
            assert imported_rooms(path) <= {"sets", "tree", "precision", "_errors", "_limits", "_jaxlib"}, path
        if room_of(path) in ("methods", "lab.methods"):
            known = {"methods", "lab.methods", "problem", "sets", "tree", "precision", "_errors", "_threads", "_jaxlib"}
            assert imported_rooms(path) <= known, path
        if path.name in ("steps.py", "driver.py", "run.py"):
            assert "sets" not in imported_rooms(path), path


def test_programs_are_compiled_in_one_place():
    compiling = {door(path) for path in modules() if "jax.jit" in path.read_text()}
    assert compiling == {"_jaxlib", "_self_test", "_errors"}, "elsewhere it is `compiled`; _errors speaks of it"


def test_kinds_of_data_are_told_apart_at_one_edge():
    asked = re.compile(r"isinstance\([^)]*\b(Data|Indexed|Arrays|Streamed|Shards|Parts|Spread|Share)\b")
    knowing = {door(path) for path in modules() if asked.search(path.read_text())}
    assert knowing == {"sampling/rows", "sampling/batch"}
    behind = {path.name for path in (SOURCE / "sampling").glob("*.py") if "sampling.mesh" in path.read_text()}
    assert behind == {"rows.py", "parquet.py"}, "a mesh stands behind these two"


def test_the_loss_of_the_classifiers_stands_in_one_file():
    spelled = re.compile(r"logaddexp|log1p|expit|logistic_loss|softplus")
    knowing = {
        door(path) for path in modules() if room_of(path).startswith("learn") and spelled.search(path.read_text())
    }
    assert knowing == {"learn/loss", "learn/datasets/synthetic"}, "the other is the law of some data"


def test_the_engine_loads_no_scikit_learn():
    for path in modules():
        if room_of(path).split(".")[0] not in ("learn", "lab"):
            assert "sklearn" not in path.read_text(), path


def test_the_reader_of_imports_sees_them():
    assert {"problem", "sampling", "methods"} <= imported_rooms(SOURCE / "loop" / "steps.py")
    assert "learn.tables" in imported_rooms(SOURCE / "learn" / "cli" / "complete.py", inside=True)


# ---- tests -------------------------------------------------------------------------------------------------------------

TESTS = Path(__file__).parent
# What a file of tests is about, where that is no module and no room: a property of all of a room, or of the whole.
ABOUT = {"architecture", "bad_input", "compiler", "documentation", "import", "paths", "stored", "torture", "updates"}
BESIDE = {path.stem for path in (TESTS.parent / "studies").iterdir()} | {"studies"}


def homes(test: Path) -> set[str]:
    """What a file of tests may be called after: modules and rooms below the folder that it mirrors, and that folder."""
    mirrored = test.relative_to(TESTS).parent
    below = SOURCE / mirrored
    assert below.is_dir(), f"{test} mirrors no folder of the package"
    found = {path.stem.lstrip("_") for path in (below.rglob("*.py") if mirrored.parts else below.glob("*"))}
    return found | {path.name for path in below.rglob("*") if path.is_dir()} | {below.name}


@pytest.mark.parametrize("test", sorted(TESTS.rglob("test_*.py")), ids=lambda p: str(p.relative_to(TESTS)))
def test_a_file_of_tests_is_called_after_what_it_tests(test):
    name = test.stem.removeprefix("test_")
    if name not in ABOUT | BESIDE:
        assert any(name == home or name.startswith(f"{home}_") for home in homes(test)), name


# ---- constants --------------------------------------------------------------------------------------------------------

MOST_CONSTANTS = 269  # what there are now: more are not wanted, and fewer lower this number


def is_number(node: ast.expr | None) -> bool:
    """Whether an expression is written in digits alone: a number, or a tuple of numbers."""
    try:
        value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})  # pyright: ignore[reportArgumentType]
    except Exception:
        return False
    parts = value if isinstance(value, tuple) and value else (value,)
    return all(isinstance(part, int | float) and not isinstance(part, bool) for part in parts)


def constants_of(source: str) -> list[ast.stmt]:
    """The statements of a module that give names to numbers, each as often as it does."""
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            values = node.value.elts if several and isinstance(node.value, ast.Tuple) else [node.value]
            found += [node] * sum(map(is_number, values))
    return found


ORIGINS = re.compile(r"derived|measured|guess|by hand|paper|usual|docs/|any would do|asks|Armijo|Powell", re.IGNORECASE)
FOR_ALL = "# By hand, where nothing else is said"  # above a block of constants


def is_explained(node: ast.stmt, source: str) -> bool:
    """Whether a comment beside it or above it, or a sentence below it, says what it is and where it comes from."""
    lines, last = [*source.splitlines(), ""], node.end_lineno or node.lineno
    above, block = [], []
    for line in reversed(lines[: node.lineno - 1]):
        if not line:
            break
        block.append(line)
    for line in block:
        if not line.startswith("#"):
            break
        above.append(line)
    beside = [line for line in lines[node.lineno - 1 : last] if "  #" in line]
    below = source.split("\n", last)[-1].split('"""')[1:2] if lines[last].startswith('"""') else []
    said = "\n".join([*above, *beside, *below])
    return bool(ORIGINS.search(said)) or (bool(said) and any(line.startswith(FOR_ALL) for line in block))


def test_the_counter_of_constants_sees_them():
    found = constants_of(
        "A = 1\nB, C = 2, 3\nD = (4, 5.0)\nE: float = 1 << 2\nF = A\nG = True\nH = 'x'\ndef f(): I = 2"
    )
    assert len(found) == 5
    source = 'A = 1  # a guess\n# By hand.\nB = 2\nC = 3\n"""Derived."""\nD = 4\n\nE = 5  # metres\n'
    assert [is_explained(node, source) for node in constants_of(source)] == [True, True, True, False, False]


def test_constants_become_fewer_and_each_is_explained():
    """Every one is a value that somebody chose: of what, in which unit, and from where. What follows is written as such."""
    sources = {path: path.read_text() for path in modules()}
    found = [(path, node) for path, source in sources.items() for node in constants_of(source)]
    assert len(found) <= MOST_CONSTANTS
    bare = [f"{door(path)}:{node.lineno}" for path, node in found if not is_explained(node, sources[path])]
    assert not bare


# ---- contracts -------------------------------------------------------------------------------------------------------


def members(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_methods_solvers_and_problems_have_few_members():
    """What few of them have is one declared object (`Facts`), an object of its own (`Steps`), or a generic function."""
    assert len(members(tr.Method)) <= 10
    assert len(members(tr.Solver)) <= 8
    assert len(members(tr.Problem)) <= 16
    assert len(members(tr.Refreshing)) <= 15, "what was reached, never to be passed again"


def test_kinds_of_problems_have_the_methods_of_a_problem():
    """A kind says in its own way what every problem says; what it has beyond that is for files that know this kind."""
    for kind, beyond in ((Nested, {"inner_values", "values_given", "seen_inside"}), (FromOracle, {"oracle"})):
        assert members(kind) - members(tr.Problem) <= beyond
        assert kind.values.__module__ in (kind.__module__, tr.Problem.__module__)


def test_the_kernel_of_a_set_is_small_and_the_rest_are_capabilities_in_one_file():
    assert len(members(Kernel)) <= 8
    homes = {kind.__module__ for name in members(tr.ConvexSet) for kind in tr.ConvexSet.__mro__ if name in vars(kind)}
    assert homes == {"tightrope.sets.base", "tightrope.sets.capabilities"}
    needed = {name for name in members(tr.ConvexSet) if getattr(vars(Kernel).get(name), "__isabstractmethod__", False)}
    assert needed == {"diameter", "contains", "start"}, "no capability is asked of everybody"


# ---- registries and exports ------------------------------------------------------------------------------------------


def exported(kind):
    found = {name: getattr(tr, name) for name in tr.__all__}
    return {v for v in found.values() if inspect.isclass(v) and issubclass(v, kind) and not inspect.isabstract(v)}


def test_every_exported_method_and_set_is_registered():
    written = {kind for module in everything() for kind in vars(module).values() if inspect.isclass(kind)}
    written = {
        kind
        for kind in written
        if issubclass(kind, tr.Method | tr.Solver)
        and kind.__module__.startswith(("tightrope.methods.", "tightrope.solvers.", "tightrope.lab.methods."))
        and "name" in vars(kind)
    }
    kinds = exported(tr.Method) | exported(tr.Solver)
    assert kinds <= set(tr.METHODS.values()) == {kind for kind in written if not inspect.isabstract(kind)}
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
