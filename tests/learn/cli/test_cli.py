"""The command line: what it prints, what it writes, and every sentence it refuses with."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tightrope as tr
from tests.commands import call
from tightrope.lab.paper import Claim
from tightrope.learn.cli.options import FAIR
from tightrope.learn.cli.printing import print_made
from tightrope.learn.fair import classifier as fair
from tightrope.learn.fair.refusal import Refused
from tightrope.learn.fairness.metrics import group_rates, p_rule, p_rule_bounds
from tightrope.learn.fairness.notions import NOTIONS, RATES
from tightrope.learn.fairness.sensitive import read_sensitive
from tightrope.learn.tables import classifier as tables
from tightrope.learn.tables.classifier import TableClassifier, fit_table
from tightrope.learn.tables.encoder import TEXT
from tightrope.learn.tables.reading import read_table
from tightrope.learn.tables.report import as_text, compare


def people(n: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    man = rng.random(n) < 0.5
    job = np.where(rng.random(n) < 0.3 + 0.3 * man, "office", rng.choice(["farm", "shop"], n))
    skill, hours = rng.normal(size=n), (40 + 8 * man + 6 * rng.normal(size=n)).round()
    score = skill + 0.05 * (hours - 44) + 0.5 * (job == "office") + 0.7 * rng.normal(size=n)
    frame = pd.DataFrame({"skill": skill, "hours": hours, "job": job, "age": rng.integers(18, 80, n)})
    return frame.assign(sex=np.where(man, "M", "F"), pay=np.where(score > 0.3, "high", "low"))


PEOPLE = people()
GOOD = ("--label", "pay", "--sensitive", "sex", "--positive", "high")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A table as CSV and Parquet, and a model fitted to the first."""
    folder = tmp_path_factory.mktemp("cli")
    PEOPLE.to_csv(folder / "people.csv", index=False)
    PEOPLE.to_parquet(folder / "people.parquet")
    said = call("fit", folder / "people.csv", *GOOD, "--covariance", 0.01, "--out", folder / "model")
    assert said.code == 0, said.err
    (folder / "printed.txt").write_text(said.out)
    return folder


# ---- fit -------------------------------------------------------------------------------------------------------------


def test_fit_prints_and_writes_what_the_library_computes(folder):
    fitted = fit_table(read_table(folder / "people.csv"), "pay", ["sex"], positive="high", covariance=0.01)
    printed, report = (folder / "printed.txt").read_text(), (folder / "model" / "report.txt").read_text()
    for text in (printed, report):
        lines = [line.strip() for line in text.splitlines()]
        assert set(filter(None, map(str.strip, str(fitted).splitlines()))) <= set(lines)
    assert str(fitted.model.classifier.result_).splitlines()[2] in report
    assert "Selected: who is predicted pay = high. Sensitive: sex." in report
    assert "at most 0.01." in printed
    names = {"classifier.safetensors", "table.json", "report.txt", "trace.png"}
    assert {path.name for path in (folder / "model").iterdir()} == names
    assert len(fitted.test) == 450
    assert not np.intersect1d(fitted.train, fitted.test).size
    assert (PEOPLE["pay"].iloc[np.asarray(fitted.test)] == "high").mean() == pytest.approx(
        (PEOPLE["pay"] == "high").mean(), abs=0.01
    )
    _check_comparison(fitted)


def _check_comparison(fitted):
    """Against the estimator and plain NumPy on the same rows."""
    test = PEOPLE.iloc[fitted.test]
    X = fitted.model.encoder.transform(test)
    sex, truth = test["sex"].to_numpy(), (test["pay"] == "high").to_numpy()
    table = fitted.comparison.set_index("measure")
    assert "sex" not in fitted.model.encoder.names
    for name, model in (("without", fitted.plain), ("with constraint", fitted.model.classifier)):
        decided = model.predict(X) == 1
        rates = [decided[sex == group].mean() for group in ("F", "M")]
        assert table.loc["accuracy", name] == pytest.approx(np.mean(decided == truth))
        assert table.loc["p%-rule", name] == pytest.approx(min(rates) / max(rates))
        assert table.loc["p%-rule, 95% lower bound", name] == p_rule_bounds(decided, sex).lower[0]
        assert [table.loc[f"selected, sex = {g}", name] for g in ("F", "M")] == pytest.approx(rates)
    assert table.loc["selected, sex = F", "rows"] == np.sum(sex == "F")
    assert table.loc["p%-rule", "with constraint"] > table.loc["p%-rule", "without"] + 0.1


def test_a_p_rule_is_kept_and_its_frontier_drawn(folder, tmp_path):
    out = tmp_path / "model"
    out.mkdir()
    (out / "trace.png").write_text("old")
    asked = ("--p-rule", 0.6, "--constraint", "covariance")
    said = call("fit", folder / "people.csv", *GOOD, *asked, "--out", out, "--force", "--drop", "age")
    assert said.code == 0, said.err
    assert {path.name for path in out.iterdir()} == {
        "classifier.safetensors",
        "table.json",
        "report.txt",
        "frontier.png",
    }
    assert (out / "frontier.png").read_bytes().startswith(b"\x89PNG")
    assert "age" not in TableClassifier.load(out).encoder.names
    frontier = TableClassifier.load(out).classifier.frontier_
    assert frontier is not None
    kept = frontier[frontier["p_rule_bound"] >= 0.6].nlargest(1, "threshold").iloc[0]
    assert f"at most {kept['threshold']:.3g}.\nIt was found by cross-validation" in said.out
    assert f"a p%-rule of 0.6: there it is at least {kept['p_rule_bound']:.3f}, with 95% confidence." in said.out


def test_a_p_rule_is_kept_by_rates(folder, tmp_path):
    said = call("fit", folder / "people.csv", *GOOD, "--p-rule", 0.6, "--out", tmp_path / "model")
    assert said.code == 0, said.err
    assert "p_rule=0.6 is kept with 95% confidence: p_rule is " in said.out
    assert "with the rule it is 0." in said.out  # and what it costs
    words = ("fit", folder / "people.csv", *GOOD, "--p-rule", 0.6, "--selected", 0.5, 0.95, "--out", tmp_path / "other")
    assert call(*words).code == 0
    assert (tmp_path / "model" / "frontier.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_is_no_picture(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    said = call("fit", folder / "people.csv", *GOOD, "--covariance", 0.01, "--out", tmp_path / "deep" / "model")
    assert said.code == 0
    assert "there is no picture, because matplotlib is not installed" in said.err
    assert "table.json, report.txt.\n" in said.out


def test_rows_with_missing_values_can_be_dropped(folder, tmp_path):
    path = tmp_path / "holes.csv"
    PEOPLE.assign(age=PEOPLE["age"].where(PEOPLE.index != 3), note=np.nan).to_csv(path, index=False)
    words = ("fit", path, *GOOD, "--covariance", 0.01, "--out", tmp_path / "model")
    said = call(*words, "--drop", "note")
    assert said.code == 1
    assert "1 of 1,500 rows have missing values, in age (1)" in said.err
    assert "Every row has missing values" in call(*words, "--drop-missing").err
    made = json.loads(call(*words, "--drop", "note", "--drop-missing", "--json").out)
    assert made["notes"] == ["1 of 1,500 rows with missing values were left out."]
    assert {path.name for path in (tmp_path / "model").iterdir()} == set(made["files"])
    assert made["says"][0].startswith("Selected: who is predicted pay = high.")
    assert [row["measure"] for row in made["comparison"]][:2] == ["accuracy", "p%-rule"]
    assert "1 of 1,500 rows" in (tmp_path / "model" / "report.txt").read_text()
    said = call("predict", tmp_path / "model", path, "--drop-missing")
    assert [int(line.split(",")[0]) for line in said.out.splitlines()[1:5]] == [1, 2, 3, 5]


# ---- refusals --------------------------------------------------------------------------------------------------------


def swap(*pairs):
    words = ["--label", "pay", "--sensitive", "sex", "--covariance", "0.01"]
    for old, new in pairs:
        words[words.index(old)] = new
    return words


TABLES = {
    "many.csv": PEOPLE.assign(pay=PEOPLE["age"]),
    "one.csv": PEOPLE.assign(sex="F"),
    "ids.csv": PEOPLE.assign(name=[f"p{i}" for i in range(1500)]),
    "few.csv": PEOPLE.head(4),
    "holes.csv": PEOPLE.assign(sex=PEOPLE["sex"].where(PEOPLE.index > 1)),
}
REFUSED = [
    ("people.csv", swap(("--covariance", "--p-rule"), ("0.01", "1.5")), 1, "p_rule is 1.5; expected a share"),
    ("people.csv", swap()[:4], 2, "None of --p-rule, --difference and --covariance was given"),
    ("people.csv", [*swap(), "--p-rule", "0.8"], 2, "--p-rule and --covariance were both given"),
    ("people.csv", swap(("0.01", "-1")), 1, "threshold is -1.0; expected positive numbers"),
    ("people.csv", swap(("pay", "pya")), 1, "has no column 'pya'. Did you mean 'pay'?"),
    ("people.csv", swap(("sex", "gender")), 1, "has no column 'gender'. It has skill, hours, job, age, sex, pay."),
    ("people.csv", [*swap(), "--drop", "agee"], 1, "Did you mean 'age'?"),
    ("people.csv", [*swap(), "--drop", "pay"], 1, "'pay' was given twice"),
    ("people.csv", [*swap(), "--positive", "top"], 1, "'top' and pay is 'high' or 'low'"),
    ("people.csv", [*swap(), "--test-share", "1"], 1, "share of test rows is 1.0"),
    ("people.csv", [*swap(), "--method", "x"], 1, "method is 'x'; expected auto, "),
    ("people.csv", swap(("sex", "age"), ("--covariance", "--p-rule"), ("0.01", "0.8")), 1, "age is continuous"),
    ("absent.csv", swap(), 1, "absent.csv is not there"),
    ("people.txt", swap(), 1, "ends in '.txt'"),
    ("many.csv", swap(), 1, "The label pay has 62 different values ("),
    ("one.csv", swap(), 1, "sex has only one value, 'F'"),
    ("ids.csv", swap(), 1, "name is text with 1,500 different values"),
    ("few.csv", swap(), 1, "There are 4 rows"),
    ("holes.csv", swap(), 1, "2 of 1,500 rows have missing values, in sex (2)"),
]


@pytest.mark.parametrize(("file", "words", "code", "sentence"), REFUSED, ids=lambda v: str(v)[:30])
def test_fit_refuses_in_a_sentence(folder, tmp_path, monkeypatch, file, words, code, sentence):
    monkeypatch.setattr(fair, "train", lambda *_, **__: pytest.fail("work was done"))
    monkeypatch.setattr(fair, "choose", lambda *_, **__: pytest.fail("work was done"))
    path = folder / file
    if file in TABLES:
        path = tmp_path / file
        TABLES[file].to_csv(path, index=False)
    said = call("fit", path, *words, "--out", tmp_path / "model")
    assert said.code == code
    assert sentence in said.err
    assert said.err.count("\n") == 1, "one sentence, on one line"
    assert "Traceback" not in said.err
    assert not said.out
    assert not (tmp_path / "model").exists()


def test_folders_that_are_refused(folder, tmp_path):
    words = ("fit", folder / "people.csv", *GOOD, "--covariance", 0.01, "--out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    assert "model holds a model; give another folder, or --force" in call(*words, folder / "model").err
    assert "full is not empty; give another folder, or --force" in call(*words, tmp_path / "full").err
    assert "is a file; expected a folder" in call(*words, tmp_path / "full" / "a").err
    assert "a does not allow it" in call(*words, tmp_path / "full" / "a" / "model").err


def test_a_refusal_draws_its_frontier_where_the_model_would_be(folder, tmp_path, monkeypatch):
    c = np.geomspace(1, 0.01, 5)
    columns = ("accuracy", "accuracy_low", "accuracy_high", "p_rule", "p_rule_low", "p_rule_high", "p_rule_bound")
    path = pd.DataFrame({"threshold": c} | dict.fromkeys(columns, 0.7 - 0.1 * c))

    def choose(*_, **__):
        raise Refused("p_rule=0.99 cannot be promised.", path)

    out = tmp_path / "model"
    words = ("fit", folder / "people.csv", *GOOD, "--p-rule", 0.99, "--out", out)
    with monkeypatch.context() as patched:
        patched.setattr(fair, "Walk", choose)
        for _ in range(2):  # the picture is not in the way of the next attempt
            said = call(*words)
            assert said == (1, f"Written to {out}: frontier.png.\n", "p_rule=0.99 cannot be promised.\n")
            assert [file.name for file in out.iterdir()] == ["frontier.png"]
            assert (out / "frontier.png").stat().st_size > 10_000
    (out / "more").touch()
    assert "model is not empty" in call(*words).err


def test_options_reach_the_classifier(folder, tmp_path, monkeypatch):
    seen = []

    def choose(built, asked, **options):
        seen.append((built.task, options))
        raise ValueError("seen")

    monkeypatch.setattr(fair, "choose", choose)
    path = tmp_path / "coded.csv"
    PEOPLE.assign(region=np.arange(len(PEOPLE)) % 3).to_csv(path, index=False)
    asked = ("--p-rule", 0.5, "--constraint", "covariance")
    words = ("fit", path, *GOOD, "--sensitive", "region", *asked, "--out", tmp_path / "model")
    assert "is continuous. If its numbers are codes of groups, say" in call(*words).err
    kind = ("--sensitive-kind", "region=categorical")
    call(*words, *kind, "--confidence", 0.8, "--radius", 3)
    call(*words, *kind, "--no-intersections")
    (first, options), (second, _) = seen
    assert (options["confidence"], first.radius) == (0.8, 3.0)
    assert [a.name for a in first.sensitive.attributes] == ["sex", "region", "sex & region"]
    assert [a.name for a in second.sensitive.attributes] == ["sex", "region"]
    assert "--sensitive-kind is 'region'; expected a name and a value" in call(*words, "--sensitive-kind", "region").err


def test_options_of_the_classifier_are_its_parameters_and_only_those_given_are_handed_on(folder, tmp_path, monkeypatch):
    parameters = tr.FairLogisticRegression().get_params()
    assert FAIR.keys() <= parameters.keys()
    handed = []

    def fit_table(*_, **given):
        handed.append(given)
        raise ValueError("seen")

    monkeypatch.setattr(tables, "fit_table", fit_table)
    words = ("fit", folder / "people.csv", *GOOD, "--difference", 0.1, "--no-merge-rare", "--out", tmp_path / "model")
    call(*words, "--selected", 0.1, 0.3, "--sensitive-kind", "sex=categorical")
    given = {name: value for name, value in handed[0].items() if name in parameters}
    assert given == {
        "difference": 0.1, "merge_rare": False, "selected": (0.1, 0.3), "sensitive_kind": {"sex": "categorical"},
        "sensitive_as_features": False,
    }  # fmt: skip
    assert "0.95]" in call("fit", "--help").out, "the default of its confidence"


def test_a_fit_for_equalized_odds_prints_true_and_false_positives(folder, tmp_path):
    asked = ("--covariance", 0.05, "--notion", "equalized_odds", "--out", tmp_path / "model")
    said = call("fit", folder / "people.csv", *GOOD, *asked)
    assert said.code == 0
    assert all(f"{what} positives, sex = {sex}" in said.out for what in ("true", "false") for sex in "FM")


# ---- predict ---------------------------------------------------------------------------------------------------------


def test_predictions_are_those_of_the_estimator(folder, tmp_path):
    out = tmp_path / "predictions.csv"
    said = call("predict", folder / "model", folder / "people.csv", "--out", out)
    assert said.code == 0
    found = pd.read_csv(out)
    model = TableClassifier.load(folder / "model")
    X = model.encoder.transform(PEOPLE)
    decided = model.classifier.predict(X) == 1
    assert found["row"].tolist() == list(range(1, 1501))
    assert found["prediction"].tolist() == np.where(decided, "high", "low").tolist()
    np.testing.assert_allclose(found["probability"], model.classifier.predict_proba(X)[:, 1])
    accuracy, ratio = np.mean(decided == (PEOPLE["pay"] == "high")), p_rule(decided, PEOPLE["sex"])
    words = said.out.split()
    assert words[words.index("accuracy") + 2] == f"{accuracy:.3f}"
    assert words[words.index("p%-rule") + 2] == f"{ratio:.3f}"
    said = call("predict", folder / "model", folder / "people.csv", "--out", out)
    assert (said.code, "predictions.csv is there already" in said.err) == (1, True)
    assert call("predict", folder / "model", folder / "people.csv", "--out", out, "--force").code == 0
    assert (
        "there is no folder" in call("predict", folder / "model", folder / "people.csv", "--out", out / "x" / "y").err
    )


def test_predictions_without_label_or_groups(folder, tmp_path):
    path = tmp_path / "new.csv"
    PEOPLE.drop(columns=["pay", "sex"]).head(3).to_csv(path, index=False)
    said = call("predict", folder / "model", path)
    assert (said.code, said.err, len(said.out.splitlines())) == (0, "", 4)
    PEOPLE.drop(columns="pay").head(30).to_csv(path, index=False)
    said = call("predict", folder / "model", path)
    assert "p%-rule" in said.err
    assert "accuracy" not in said.err
    PEOPLE.assign(pay="x").to_csv(path, index=False)
    said = call("predict", folder / "model", path)
    assert said.code == 0
    assert (
        "accuracy and p%-rule are not measured. The label pay has the value 'x'; expected 'low' or 'high'." in said.err
    )


def test_tables_that_predict_refuses(folder, tmp_path):
    path = tmp_path / "new.csv"
    for frame, sentence in [
        (PEOPLE.drop(columns="job"), "has no column 'job'"),
        (PEOPLE.assign(job="pilot"), "job has values that were not there when the classifier was fitted: 'pilot'"),
        (PEOPLE.assign(age="old"), "age was a number"),
    ]:
        frame.to_csv(path, index=False)
        said = call("predict", folder / "model", path)
        assert (said.code, said.out, sentence in said.err) == (1, "", True), said.err


def test_folders_that_predict_refuses(folder, tmp_path):
    """What a folder of a model may be is with its class, in tests/test_files.py."""
    shutil.copytree(folder / "model", tmp_path / "model")
    (tmp_path / "model" / "table.json").unlink()
    for model, sentence in (("model", "has no table.json"), ("absent", "is no folder")):
        found = call("predict", tmp_path / model, folder / "people.csv")
        assert (found.code, found.out) == (1, "")
        assert f"{sentence}; expected a folder that tightrope fit wrote." in found.err


# ---- several attributes, and those without groups --------------------------------------------------------------------


def test_comparisons_know_every_kind_of_attribute():
    frame = PEOPLE.head(200)
    decided, truth = (frame["skill"] > 0).to_numpy(), (frame["pay"] == "high").to_numpy()
    table = compare({"a": decided}, read_sensitive(frame[["age", "job", "sex"]]), truth, "equal_opportunity")
    found = table.set_index("measure")["a"]
    rates = group_rates(decided, frame[["job", "sex"]], truth)
    assert found["p%-rule"] == p_rule(decided, frame[["job", "sex"]])
    assert found["selected, job = shop"] == rates["selection_rate"][2]
    assert found["true positives, sex = M"] == rates["true_positive_rate"][4]
    rows = table.set_index("measure")["rows"]
    assert rows["true positives, sex = M"] == np.sum(truth & (frame["sex"] == "M"))
    assert found["correlation with age"] == pytest.approx(np.corrcoef(decided, frame["age"])[0, 1])
    assert found["p%-rule of true positives"] == p_rule(decided[truth], frame.loc[truth, ["job", "sex"]])
    alone = compare({"a": np.ones(200, bool)}, read_sensitive(frame[["age"]]))
    assert alone["measure"].tolist() == ["correlation with age"]
    assert as_text(alone).split()[-1] == "-"


@pytest.mark.parametrize("notion", NOTIONS)
def test_a_comparison_has_every_rate_that_a_notion_compares(notion):
    frame = PEOPLE.head(400)
    decided, truth = (frame["skill"] > 0).to_numpy(), (frame["pay"] == "high").to_numpy()
    found = compare({"a": decided}, read_sensitive(frame[["sex"]]), truth, notion).set_index("measure")["a"]
    for label in NOTIONS[notion]:
        owners = np.ones(400, bool) if label is None else truth == label
        for sex in ("F", "M"):
            mine = owners & (frame["sex"] == sex).to_numpy()
            assert found[f"{RATES[label]}, sex = {sex}"] == pytest.approx(decided[mine].mean())
    others = set(RATES) - {None, *NOTIONS[notion]}
    assert not any(f"{RATES[label]}, sex = F" in found.index for label in others)


# ---- reproduce, and what there is ------------------------------------------------------------------------------------


def test_reproduce_passes_its_words_on_and_prints_verdicts(tmp_path, monkeypatch):
    import tightrope.lab.paper as figures

    called = []

    def fake(*words):
        called.append(words)
        return {"fig1": [Claim("It works.", "partly", "1 of 2")]}

    monkeypatch.setattr(figures, "reproduce", fake)
    said = call("reproduce", "fig1", "--quick", "--out", tmp_path)
    assert called == [(["fig1"], tmp_path, True)]
    assert all(word in said.out for word in ("fig1", "partly", "It works.", "1 of 2", "Written to"))


@pytest.mark.parametrize(("command", "names"), [("methods", tr.METHODS), ("sets", tr.SETS)])
def test_what_there_is_comes_from_the_registries(command, names):
    found = json.loads(call(command, "--json").out)
    assert [entry["name"] for entry in found] == list(names)
    for entry in found:
        assert entry["what"] in " ".join((names[entry["name"]].__doc__ or "").split())
        assert entry["name"] in call(command).out
    if command == "methods":
        csoa = next(entry for entry in found if entry["name"] == "csoa")
        assert (csoa["needs"], csoa["cost"]) == (["project"], {"samples": 1, "gradients": 1, "projections": 1})
    else:
        can = {entry["name"]: entry["can"] for entry in found}
        assert can["L2Ball"] == ["project", "lmo"]
        assert can["NuclearBall"][0].startswith("project (not")


def test_datasets_are_listed():
    found = {entry["name"]: entry for entry in json.loads(call("datasets", "--json").out)}
    assert found["load_adult"]["arguments"] == ["dropna"]
    assert "rotated_gaussians" in call("datasets").out


# ---- the program itself ----------------------------------------------------------------------------------------------


def test_version_help_and_wrong_words():
    assert call("--version") == (0, f"tightrope {tr.__version__}\n", "")
    words = ("fit", "predict", "reproduce", "methods", "sets", "datasets", "--install-completion")
    assert all(word in call("--help").out for word in words)
    assert call("fti").code == 2
    assert call("fit", "people.csv").code == 2


def test_words_to_choose_from_are_those_of_the_library(folder, monkeypatch):
    said = call("fit", "people.csv", *GOOD, "--covariance", 0.01, "--out", "model", "--text", "x")
    assert said.code == 2
    assert all(f"'{choice}'" in said.err for choice in TEXT)
    assert said.err.count("'") == 2 * (len(TEXT) + 3), "the option, what was given, where help is, and no other choice"
    asked = (*GOOD, "--covariance", 0.01, "--out", folder / "no", "--notion", "x")
    said = call("fit", folder / "people.csv", *asked)
    assert said.code == 1
    assert all(f"'{notion}'" in said.err for notion in NOTIONS)
    monkeypatch.setenv("COLUMNS", "300")
    assert "|".join(NOTIONS) in call("fit", "--help").out


def test_what_has_nothing_to_compare_with_is_printed_and_json_has_no_nan(tmp_path, capsys):
    @dataclasses.dataclass
    class Found:
        threshold: float

    class Made:
        model = SimpleNamespace(classifier=SimpleNamespace(certificate_=Found(float("inf"))))

        def lines(self):
            return ["It was made."]

        def save(self, folder, notes):
            return ["a.png"]

    made: Any = Made()
    print_made(made, [], tmp_path, as_json=False)
    assert capsys.readouterr().out == f"It was made.\nWritten to {tmp_path}: a.png.\n"
    print_made(made, ["n"], tmp_path, as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "says": ["It was made."],
        "certificate": {"threshold": None},
        "notes": ["n"],
        "folder": str(tmp_path),
        "files": ["a.png"],
    }


def test_a_traceback_only_with_debug(tmp_path):
    words = ("predict", tmp_path / "absent", tmp_path / "people.csv")
    assert "Traceback" not in call(*words).err
    for debug in (call("--debug", *words), call(*words, "--debug")):
        assert "Traceback" in debug.err
        assert "is no folder; expected a folder that tightrope fit wrote." in debug.err


def test_what_nobody_expected_is_a_sentence_too(tmp_path, monkeypatch):
    def broken(*_):
        raise KeyError("x")

    monkeypatch.setattr("tightrope.learn.tables.reading.read_table", broken)
    said = call("fit", "people.csv", *GOOD, "--covariance", 0.01, "--out", tmp_path / "model")
    assert (said.code, "Traceback" in said.err) == (1, False)
    assert "Something unexpected: KeyError: 'x'. Run again with --debug" in said.err


def test_ctrl_c_stops_everything_and_leaves_nothing(folder, tmp_path, monkeypatch):
    def train(*_, **__):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        except KeyboardInterrupt:  # as a run does, which gives back what it has
            pytest.fail("the run swallowed it")

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(fair, "train", train)
    said = call("fit", folder / "people.csv", *GOOD, "--covariance", 0.01, "--out", tmp_path / "model")
    assert said == (130, "", "Interrupted.\n")
    assert not (tmp_path / "model").exists()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_ends_a_program_that_cannot_hear_of_the_first():
    """The main thread is in compiled code for a minute, and so is another one, which Python waits for at its end."""
    program = """if True:
        import signal, sys, threading, time
        from hashlib import pbkdf2_hmac
        from tightrope.learn.cli.errors import ends_when_interrupted
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background starts without
        work = lambda: pbkdf2_hmac("sha256", b"", b"", 200_000_000)
        with ends_when_interrupted():
            threading.Thread(target=work).start()
            print("begun", flush=True)
            work()
    """
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None  # the command has two seconds to end by itself
        process.send_signal(signal.SIGINT)
        began = time.perf_counter()
        assert process.wait(30) == 130
        assert time.perf_counter() - began < 1


def test_warnings_of_the_library_are_notes(folder, tmp_path):
    path = tmp_path / "rare.csv"
    last = np.flatnonzero(PEOPLE["sex"] == "M")[-8:]
    PEOPLE.assign(rare=np.isin(PEOPLE.index, last).astype(int)).to_csv(path, index=False)
    said = call("fit", path, *GOOD, "--covariance", 0.01, "--out", tmp_path / "model")
    assert said.code == 0
    assert "Note: A handful of rows can carry the covariance by themselves: rare (" in said.err
    assert "A handful of rows" in (tmp_path / "model" / "report.txt").read_text()
