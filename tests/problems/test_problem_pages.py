"""The page on problems with known solutions is that of the code, and its pictures are there."""

import re
from pathlib import Path

from studies import problems
from tightrope.problems import PROBLEMS

DOCS = Path(__file__).parents[2] / "docs"


def without_numbers(text):
    """Last digits are a matter of the machine."""
    return re.sub(r"-?\d[\d.]*(e[+-]\d+)?", "#", text)


def test_the_page_is_up_to_date():
    page = (DOCS / "problems.md").read_text()
    assert without_numbers(page) == without_numbers(problems.report())
    assert {path.stem for path in (DOCS / "problems").glob("*.png")} == set(PROBLEMS)


def test_a_picture(tmp_path):
    problems.draw(PROBLEMS["infeasible"](), tmp_path / "pictures" / "one.png")
    assert (tmp_path / "pictures" / "one.png").stat().st_size > 10_000
