"""Pages stand alone, are well formed, escape what users wrote, and say what the text says."""

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import tightrope as tr
from tightrope.certificate import Certificate, ConstraintBound
from tightrope.learn.constrained.certificate import MeasuredMetric, ThresholdCertificate
from tightrope.learn.constrained.held_out import HeldOut
from tightrope.learn.constrained.page import threshold_page
from tightrope.learn.fair.by_rates import RatesRun
from tightrope.pages.drawings import bar, curve, interval
from tightrope.pages.elements import Html, element, fragment, link, page, text, write_page
from tightrope.result import Result, Status, TotalCost

VOID = {"meta", "link", "img", "line", "rect", "circle", "polyline"}
EVIL = '<script>alert("1")</script> & co'


class Read(HTMLParser):
    """A page as a reader has it: what is open, what is written, what is asked of the network."""

    def __init__(self, made: str):
        super().__init__()
        self.open, self.tags, self.words, self.asked = [], [], [], []
        self.feed(made)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.asked += [value for name, value in attrs if name in ("src", "href", "srcset", "data")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)


def read(made: str) -> Read:
    """Read a page, and see to what holds for every one."""
    seen = Read(made)
    assert not seen.open
    assert "script" not in seen.tags
    assert not [url for url in seen.asked if "//" in url]
    assert not re.search(r"url\(|@import", made)
    return seen


def a_run(**changed) -> Result:
    names = ["budget", EVIL]
    steps = np.array([1, 10, 100])
    trace = pd.DataFrame({"step": steps, "samples": steps, "objective": [3.0, 2.0, 1.0]})
    trace = trace.assign(**{names[0]: [1.0, 0.5, -0.1], names[1]: [-2.0, -1.0, np.nan]})
    given = {
        "x": np.array([0.25, 0.75]), "output": "average", "mean": None, "last": None, "dual": np.array([1.5, np.nan]),
        "dual_last": np.zeros(2), "objective": 1.25, "constraints": pd.Series([-0.1, 0.4], index=names),
        "measured_on": "all 100 rows", "point": "the average", "status": Status.FINISHED, "message": "That is all.",
        "trace": trace, "cost": TotalCost(100, 100, 100, 100, 0, 0.5), "state": None, "method": tr.CSOA(),
        "errors": pd.Series([0.05, 0.1], index=names), "at_random": True, "notes": ("Mind the <gap>.",),
    }  # fmt: skip
    return Result(**(given | changed))


def test_a_run_is_one_page_that_stands_alone(tmp_path):
    path = a_run().report(tmp_path / "run.html")
    seen = read(path.read_text())
    said = " ".join(seen.words)
    for words in ("CSOA: finished", "That is all.", "1.25", "0.25, 0.75", "Mind the <gap>.", EVIL, "VIOLATED", "1.5"):
        assert words in said, words
    assert seen.asked == ["data:,"]
    assert seen.tags.count("polyline") == 3  # the objective and two constraints
    assert seen.tags.count("rect") >= 2  # a bar each


def test_verdicts_are_those_of_the_text():
    result = a_run()
    seen = [element("b", verdict, role) for verdict, role in (("satisfied", "kept"), ("VIOLATED", "broken"))]
    for shown in (result._repr_html_(), result._repr_html_()):
        assert all(piece in shown for piece in seen)
    assert "satisfied" in str(result)
    assert "VIOLATED" in str(result)


@pytest.mark.parametrize(
    "changed",
    [
        {"trace": pd.DataFrame({"step": [], "samples": [], "objective": []})},
        {"objective": None, "constraints": pd.Series([], dtype=float), "errors": None, "dual": np.zeros(0)},
        {"constraints": pd.Series([np.nan, np.nan], index=["budget", EVIL])},
        {"at_random": False, "lower": 1.0, "objective_error": 0.1, "status": Status.SOLVED},
        {"x": {"w": np.zeros((30, 20)), "b": np.float32(1)}, "unsettled": ("budget",)},
    ],
)
def test_runs_of_every_kind_have_a_page(changed, tmp_path):
    result = a_run(**changed)
    read(result.report(tmp_path / "run.html").read_text())
    read(result._repr_html_())


def test_many_constraints_show_the_worst_and_count_the_others():
    names = [f"h[{i}]" for i in range(1000)]
    values = pd.Series(np.linspace(-1.0, 0.5, 1000), index=names)
    result = a_run(
        constraints=values, errors=None, dual=np.zeros(1000), trace=a_run().trace[["step", "samples", "objective"]]
    )
    shown = result._repr_html_()
    assert "40 worst of 1,000" in shown
    assert ">h[999]<" in shown
    assert ">h[0]<" not in shown
    assert len(shown) < 60_000


def test_the_certificate_comes_first(tmp_path):
    bounds = (
        ConstraintBound(EVIL, -0.2, -0.1, "range", carried_by=(3,)),
        ConstraintBound("risk", -0.2, np.inf, "heavy"),
    )
    certificate = Certificate(np.zeros(2), 0.95, 500, False, bounds, gap=0.01)
    seen = read(a_run(certificate=certificate).report(tmp_path / "run.html").read_text())
    said = " ".join(seen.words)
    assert said.index(certificate.verdict) < said.index("CSOA: finished")
    assert all(warning in said for warning in certificate.warnings)
    assert len(certificate.warnings) == 2
    assert text(certificate.verdict) in certificate._repr_html_()


def test_a_threshold_and_its_limits(tmp_path):
    fpr = MeasuredMetric("fpr", 0.012, 0.007, 0.0198, "1,039 negative rows", "<= 0.02")
    cost = MeasuredMetric(f"cost {EVIL}", 3.5, None, None, "1,500 rows")
    certificate = ThresholdCertificate(True, 0.95, True, 0.5, ("fpr <= 0.02",), (fpr,), cost, "1,500 rows judged.")
    scores, positive = np.linspace(0, 1, 50), np.arange(50) % 3 == 0
    seen = read(threshold_page(certificate, HeldOut(scores, positive, np.ones(50), {}), a_run()))
    said = " ".join(seen.words)
    assert said.index(certificate.verdict) < said.index("0.007 to 0.0198") < said.index("CSOA: finished")
    failed = dataclasses.replace(certificate, holds=False, missing=("Too few rows.",))
    assert "said broken" in failed._repr_html_()
    assert "Too few rows." in failed._repr_html_()


def test_a_fit_by_rates(tmp_path):
    frontier = pd.DataFrame({"path": ["sharp", "sharp", "logistic"], "threshold": [0.8, 0.9, 0.8]})
    frontier = frontier.assign(p_rule=[0.7, 0.8, 0.75], p_rule_bound=0.6, accuracy=0.8)
    values = pd.Series([-0.1, 1e-9], index=[f"{EVIL} against b", "b against a"])
    names = ["without the rule", "nobody selected", "95% confidence"]
    beside = pd.DataFrame({"accuracy": [0.9, 0.7, np.nan], "p_rule": [0.3, np.nan, np.nan]}, index=names)
    made = values, np.array([0.0, 0.1]), False, frontier, np.zeros(2), 0.0, f"Kept: {EVIL}.", beside
    run = RatesRun("sharp", 0.9, 0.4, *made)
    seen = read(run.report(tmp_path / "rates.html").read_text())
    assert seen.words.index(f"Kept: {EVIL}.") < seen.words.index("0.4")
    # the chosen point in its two panels, and a path of one point: rule, bound, accuracy
    assert seen.tags.count("circle") == 2 + 3
    assert (
        "Accuracy is 0.9000 without the rule (p_rule 0.300), 0.7000 with nobody selected; with the rule it is"
        in run.price
    )
    assert "nothing with 95% confidence" in run.price
    read(run._repr_html_())


# ---- the pieces ------------------------------------------------------------------------------------------------------


def test_text_is_escaped_once_and_markup_never():
    assert text(EVIL) == text(text(EVIL)) == "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; co"
    assert element("b", element("i", "<")) == "<b><i>&lt;</i></b>"
    assert '"' not in link('a"b', "c").removeprefix('<a href="').partition('">')[0]


def test_a_bar_ends_where_its_value_is():
    def ends(made: Html) -> tuple[float, float]:
        x, width = (float(re.search(rf'<rect[^>]* {name}="([-\d.]+)"', made)[1]) for name in ("x", "width"))  # pyright: ignore[reportOptionalSubscript]
        return x, x + width

    assert ends(bar(-1.0, 2.0, False)) == (75 - 36.5, 75.0)
    assert ends(bar(2.0, 2.0, True)) == (75.0, 148.0)
    assert ends(bar(9.0, 2.0, True)) == (75.0, 148.0)
    assert 'class="broken"' in bar(2.0, 2.0, True)
    assert 'class="kept"' in bar(1e-12, 2.0, False)
    assert bar(np.nan, 1.0, False) == bar(1.0, 0.0, True) == interval(0, np.nan, 1, 1) == ""


def test_a_curve_leaves_out_what_is_not_known():
    made = curve([1, 10, 100], [np.array([1.0, np.nan, 3.0])], "f", "samples", level=2.0)
    (points,) = re.findall(r'points="([^"]*)"', made)
    assert points == "4.0,104.0 246.0,20.0"
    assert 'class="beyond"' in made
    assert curve([1, 2], [np.array([np.nan, np.inf])], "f", "samples") == ""
    assert "0.001 to 1, log" in curve([1, 2, 3], [np.array([1.0, 1e-3, 0.0])], "gap", "passes", decades=True)


def test_a_page_is_written_whole_or_refused_in_a_sentence(tmp_path):
    made = page("t", "<b>")
    assert write_page(str(tmp_path / "a.html"), made).read_text() == made
    assert "&lt;b&gt;" in made
    assert fragment().startswith('<div class="tightrope"><style>')
    with pytest.raises(ValueError, match="expected a file in a folder that exists"):
        write_page(tmp_path / "none" / "a.html", made)
    with pytest.raises(ValueError, match="expected a file in a folder that exists"):
        write_page(tmp_path, made)
