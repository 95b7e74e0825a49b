"""The page of a reproduction is made from what lies in its folder; claims beyond the paper on made-up tables."""

import json

import pandas as pd

from tightrope.lab.paper import FIGURES, beyond
from tightrope.lab.paper.page import CAPTIONS, ERRATA, caption, folder_page
from tightrope.pages.elements import text


def test_the_page_has_what_the_folder_has(tmp_path):
    claim = {"sentence": "x < <y>", "verdict": "partly", "evidence": "1 & 2", "source": "paper"}
    (tmp_path / "fig1.verdicts.json").write_text(json.dumps([claim, claim | {"source": "analysis"}]))
    for file in ("fig1.png", "fig1-iterations.png", "fig1.csv", "fig12.png", "fig2.png"):
        (tmp_path / file).write_text("")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "fig1-a.csv").write_text('# {"seeds": [0, 1], "version": "0.1.0"}\na\n1\n')
    made = folder_page(tmp_path, FIGURES)
    assert "x &lt; &lt;y&gt;" in made
    assert "1 &amp; 2" in made
    assert made.index('src="fig1.png"') < made.index('src="fig1-iterations.png"')
    assert "fig12.png" not in made
    assert "fig2.png" not in made  # it has no verdicts yet
    assert 'href="fig1.csv"' in made
    assert "seeds: 0, 1; version: 0.1.0" in made
    assert text(caption("fig1-iterations")) in made
    assert all(text(what) in made for _, _, what in ERRATA)
    assert "http" not in made


def test_every_picture_has_the_caption_of_its_own_name():
    assert caption("fig2") == CAPTIONS["fig2"]
    assert caption("fig2-paper-passes10") == CAPTIONS["fig2-paper"]
    assert caption("fig3-tuned") == CAPTIONS["fig3-tuned"]
    assert {name.split("-")[0] for name in CAPTIONS} == set(FIGURES)


def runs(kind: str, name: str, methods: tuple[str, str], values: tuple[float, float], **more) -> pd.DataFrame:
    rows = [
        {"kind": kind, "method": method, "seed": seed, name: value * (1 + 0.01 * seed), **more}
        for method, value in zip(methods, values, strict=True)
        for seed in range(10)
    ]
    return pd.DataFrame(rows)


def test_beyond_smaller_means_at_most_half():
    def verdict(ours: float) -> str:
        return beyond.smaller(runs("split", "score", ("a", "b"), (1.0, ours)), "score", ("a", "b"), "b is.").verdict

    assert [verdict(0.4), verdict(0.9), verdict(1.1)] == ["reproduced", "partly", "not reproduced"]


def test_beyond_certificates_are_held_against_the_truth():
    def verdict(feasible: float, certified: float, holds: bool = True) -> str:
        both = ("feasible", "certified")
        table = runs("certified", "excess", both, (feasible, certified), holds=holds, gap=0.1)
        return beyond.certificates(table).verdict

    assert verdict(0.1, -0.1) == "reproduced"
    assert verdict(-0.1, -0.1) == "partly"  # nothing was gained
    assert verdict(0.1, 0.1) == "not reproduced"
    assert verdict(0.1, -0.1, holds=False) == "not reproduced"
