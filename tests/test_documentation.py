"""Every public name has an example, every link a target, and every block of Python in README and guides runs."""

import inspect
import re
from pathlib import Path
from typing import Any

import jax
import pytest

import tightrope as tr
from docs.public_names import public_names

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/guides/*.md"), *ROOT.glob("benchmarks/*.md")]
)
RUN = [ROOT / "README.md", ROOT / "docs" / "start.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
MADE_BY_THE_SITE = ("docs/gallery/",)


def test_every_public_name_has_an_example():
    def own_docstring(value):
        return value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__

    names = dict(public_names())
    assert {"tightrope.minimize", "tightrope.Box", "tightrope.methods.ConEx", "tightrope.theory.csoa_tight"} <= set(
        names
    )
    assert not [name for name, value in names.items() if ">>>" not in (own_docstring(value) or "")]


def test_links_between_pages_lead_somewhere():
    broken = []
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if "://" in target or target.startswith(("#", "mailto:")):
                continue
            place = (page.parent / target.split("#")[0]).resolve()
            made = str(place.relative_to(ROOT)).startswith(MADE_BY_THE_SITE)
            broken += [] if made or place.exists() else [f"{page.relative_to(ROOT)}: {target}"]
    assert not broken


# ---- blocks of Python ------------------------------------------------------------------------------------------------

SLOW = {  # by page and number, from 0: what `make docs` alone runs, and where `make test` runs the same call on less data
    ("README.md", 1): "fair/test_rates.py",
    ("README.md", 2): "test_completion.py",
    ("start.md", 1): "test_minimize.py",
}


def blocks_of(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def same_functions_once():
    """The pages pose the same problem again and again: functions of equal code are taken for one, and compiled once."""
    made: Any = tr.Problem
    known: dict[Any, Any] = {}

    def one_of(value):
        if not inspect.isfunction(value) or value.__closure__:
            return value
        code = value.__code__
        return known.setdefault((code.co_code, code.co_consts, code.co_names), value)

    def problem(*args, **options):
        return made(*map(one_of, args), **{name: one_of(value) for name, value in options.items()})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tr, "Problem", problem)
        yield


def run(blocks, page):
    names = {"__name__": "page"}
    with jax.enable_x64(False):  # as a reader runs them
        for block in blocks:
            exec(compile(block, page.name, "exec"), names)


@pytest.mark.usefixtures("same_functions_once")
@pytest.mark.parametrize("page", [page for page in RUN if blocks_of(page)], ids=lambda page: page.name)
def test_quick_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run([block for i, block in enumerate(blocks_of(page)) if (page.name, i) not in SLOW], page)


@pytest.mark.slow  # `make docs` runs them
@pytest.mark.parametrize(
    "page", [page for page in RUN if any(page.name == name for name, _ in SLOW)], ids=lambda p: p.name
)
def test_all_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(blocks_of(page), page)


FRAGMENTS = ("certificates", "constrained", "judging_fairness", "problems", "projection_free", "theory")
GIVEN = """
import jax, jax.numpy as jnp, numpy as np, pandas as pd, tightrope as tr
from sklearn.datasets import make_classification

rng = np.random.default_rng(0)
data = rng.normal(1.0, 1.0, size=(2_000, 3)).astype(np.float32)
train, heldout = data[:1_000], data[1_000:]
problem = tr.Problem(
    lambda x, theta: jnp.sum((x - theta) ** 2) / 2,
    lambda x, theta: jnp.stack([jnp.dot(theta, x)]),
    tr.L2Ball(2.0, shape=3),
    levels=1.0,
)
constants = tr.theory.Constants(D=4, G_f=1, G_h=2, sigma_f=1.5, sigma_h=2.5, sigma_lam=2.1, N=1, sigma=0.5)
X, y = make_classification(4_000, weights=[0.9], class_sep=2.0, random_state=0)
people = pd.DataFrame({"sex": rng.choice(["f", "m"], 4_000), "race": rng.choice(["a", "b"], 4_000)})
X_test, y_test = X, y


def draw(key):
    return 1.0 + jax.random.normal(key, (3,))
"""
FITTED = "clf = tr.FairLogisticRegression(covariance=0.1).fit(X, y, sensitive_features=people)"


@pytest.mark.slow  # what pages show in part; those of docs/scale.md ask for devices and libraries that are not here
@pytest.mark.parametrize("name", FRAGMENTS)
def test_fragments_run_with_what_they_leave_out(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / f"{name}.md"
    run([GIVEN, FITTED if "clf" in page.read_text() else "", *blocks_of(page)], page)


def test_the_slow_blocks_are_there():
    assert all(number < len(blocks_of(next(p for p in RUN if p.name == name))) for name, number in SLOW)
