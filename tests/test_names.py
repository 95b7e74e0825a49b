"""What users call things is text everywhere: in a terminal, a page, a drawing, a picture, a file of predictions."""

import csv
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tightrope as tr
from tightrope.__main__ import app
from tightrope.learn.constrained.classifier import ConstrainedClassifier
from tightrope.names import in_csv, in_html, in_picture, in_terminal, visible

ESCAPE = "\x1b[31mred"


def table(groups, labels, column="group"):
    """A table of people, in which the label goes with a number."""
    chance = np.random.default_rng(0)
    x = chance.normal(size=300)
    positive = x + chance.normal(size=300) > 0
    return pd.DataFrame({"x": x, column: chance.choice(groups, 300), "paid": np.where(positive, *labels)})


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.parametrize(
    ("groups", "labels", "column"),
    [
        (["[/]", "[/b]"], ["[bold]yes", "[/bold]no"], "[/x]"),
        ([ESCAPE, "\u202eM"], [f"{ESCAPE} yes", "no"], "group"),
        (["$\\frac", "=cmd()"], ["=$\\frac", "+no"], "$\\frac{"),
    ],
)
def test_commands_show_names_as_they_are(tmp_path, groups, labels, column):
    table(groups, labels, column).to_csv(tmp_path / "people.csv", index=False)
    model, people, out = tmp_path / "model", tmp_path / "people.csv", tmp_path / "predicted.csv"
    asked = ("--label", "paid", "--sensitive", column, "--out", model)
    fitted = run("fit", people, *asked, "--covariance", 0.1)
    assert f"{visible(column)} = {visible(groups[0])}" in " ".join(fitted.output.split())
    assert "\x1b" not in fitted.output + (model / "report.txt").read_text()
    said = json.loads(run("fit", people, *asked, "--difference", 0.9, "--judge", "holdout", "--force", "--json").stdout)
    assert f"Sensitive: {column}." in said["says"][0]
    assert (model / "frontier.png").exists()
    assert "\x1b" not in run("predict", model, people).output
    run("predict", model, people, "--out", out)
    with out.open(newline="") as file:
        predicted = {row["prediction"] for row in csv.DictReader(file)}
    assert predicted == {in_csv(label) for label in labels}
    assert not any(label.startswith(("=", "+", "@")) for label in predicted)


def test_a_limit_by_group_is_drawn_and_printed_with_its_name(tmp_path):
    people = table(["$\\frac", f"$ {ESCAPE}"], [1, 0])
    model: Any = ConstrainedClassifier(None, subject_to={"fpr by group": 0.6})
    model.fit(people[["x"]], people["paid"], sensitive_features=people["group"])
    model.plot(str(tmp_path / "roc.png"))
    assert (tmp_path / "roc.png").stat().st_size > 1000
    assert "(group = $\\frac)" in str(model.certificate_)
    assert "\x1b" not in str(model.certificate_)
    page = model.report(tmp_path / "page.html").read_text()
    assert "\x1b" not in page


def test_reports_that_are_printed_steer_no_terminal():
    people = table([ESCAPE, "M"], [1, 0])
    model = tr.FairLogisticRegression(difference=0.9, judge="holdout").fit(
        people[["x"]], people["paid"], people["group"]
    )
    report = model.report(people[["x"]], people["paid"], people["group"])
    for said in (str(report), str(model.result_), report._repr_html_(), model.result_._repr_html_()):
        assert "\x1b" not in said
        assert "\\u001b[31mred" in said


def test_each_medium_has_one_way_to_write_what_acts_in_it():
    acts = "".join(map(chr, [*range(10), *range(11, 32), *range(127, 160), 0x200F, 0x202E, 0xD800]))
    assert len(visible(acts)) == 6 * len(acts)
    shown = "Größe عربي\nשלם 💡"
    assert visible(shown) == shown
    assert json.loads(f'"{visible(acts)}"') == acts
    assert in_html("<a href='x'>&\x00") == "&lt;a href=&#x27;x&#x27;&gt;&amp;\\u0000"
    assert in_terminal("[b]:heart:[/]").plain == "[b]:heart:[/]"
    assert in_picture("_$x$") == " _\\$x\\$"
    assert [in_csv(v) for v in ("=1", " +a", "-2.5", "-a", "@a", "a=1", True, 3)] == [
        "'=1", "' +a", "-2.5", "'-a", "'@a", "a=1", True, 3,
    ]  # fmt: skip
