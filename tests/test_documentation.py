"""Every public name has an example, every link a target, and every block of Python in README and guides runs."""

import inspect
import re
from pathlib import Path

import jax
import pytest

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


@pytest.mark.slow  # `make docs` runs them; `make test` the first block of README, in test_architecture.py
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_blocks_of_python_run(page, tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    with jax.enable_x64(False):  # as a reader runs them
        for block in blocks:
            exec(compile(block, page.name, "exec"), names)
