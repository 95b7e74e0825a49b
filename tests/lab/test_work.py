"""Parts are stored whole, skipped when finished, and refused when they belong to other settings."""

import dataclasses
import json
import sys

import jax
import pandas as pd
import pytest

import tightrope.lab.paper as package
from tightrope.lab.paper import Claim, Figure, OtherSettingsError, Size, reproduce
from tightrope.lab.paper.figure import FigureReport
from tightrope.lab.work import Store, Unit


class Fake:
    """A figure of three units that counts what is computed, and can be interrupted."""

    def __init__(self):
        self.computed, self.interrupt_at = [], None

    def unit(self, number: int, size: Size) -> Unit:
        def run(done):
            if number == self.interrupt_at:
                raise KeyboardInterrupt
            self.computed.append(number)
            assert list(done) == [f"u{k}" for k in range(number)]  # the tables before it
            return pd.DataFrame({"value": [number + 0.1], "seeds": [size.seeds]})

        return Unit(f"u{number}", {"seeds": size.seeds, "number": number}, run)

    def figure(self) -> Figure:
        def report(tables, size):
            table = pd.concat(tables.values())
            return FigureReport({"fake": table}, {}, [Claim("It adds up.", "reproduced", f"{table.value.sum():g}")])

        return Figure("a figure for tests", lambda size: [self.unit(k, size) for k in range(3)], report)


@pytest.fixture
def fake(monkeypatch):
    made = Fake()
    monkeypatch.setattr(package, "FIGURES", {"fake": made.figure()})
    return made


def test_finished_parts_are_not_computed_again(fake, tmp_path):
    first = reproduce(["fake"], tmp_path)
    second = reproduce([], tmp_path)  # all figures there are
    assert fake.computed == [0, 1, 2]
    assert first == second
    assert json.loads((tmp_path / "fake.verdicts.json").read_text())[0]["evidence"] == "3.3"
    assert "REPRODUCED (paper): It adds up." in (tmp_path / "fake.txt").read_text()
    assert pd.read_csv(tmp_path / "fake.csv").value.tolist() == [0.1, 1.1, 2.1]


def test_an_interrupt_loses_only_the_part_in_progress(fake, tmp_path, capsys):
    fake.interrupt_at = 1
    with pytest.raises(KeyboardInterrupt):
        reproduce(["fake"], tmp_path)
    assert "the same call goes on" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["fake-u0.csv"]
    fake.interrupt_at = None
    reproduce(["fake"], tmp_path)
    assert fake.computed == [0, 1, 2]  # the first only once


def test_other_settings_are_refused_before_any_work(fake, tmp_path):
    reproduce(["fake"], tmp_path, quick=True)
    (tmp_path / "parts" / "fake-u0.csv").unlink()
    with pytest.raises(OtherSettingsError, match=r"fake-u1\.csv .* seeds is 5 there and 20 here.*another folder"):
        reproduce(["fake"], tmp_path)
    assert fake.computed == [0, 1, 2]


def test_a_file_that_is_no_part_is_refused(fake, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "fake-u2.csv").write_text("value\n1\n")
    with pytest.raises(OtherSettingsError, match="not a part of a reproduction"):
        reproduce(["fake"], tmp_path)


def test_half_a_file_does_not_count(fake, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "fake-u0.csv.tmp").write_text("# {")
    reproduce(["fake"], tmp_path)
    assert fake.computed == [0, 1, 2]


def test_digits_survive_the_file(fake, tmp_path):
    table = pd.DataFrame({"value": [1 / 3, -1e-17, 123456.789012345, float("nan")]})
    unit, store = Unit("digits", {}, lambda _: table), Store(tmp_path, "fake")
    store.save(unit, table)
    assert store.load(unit).value.tolist() == pytest.approx(table.value.tolist(), rel=1e-15, nan_ok=True)


def test_wrong_names_and_places_are_sentences(fake, tmp_path):
    with pytest.raises(ValueError, match="there is no figure 'fig9'; expected some of fake"):
        reproduce(["fig9"], tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="expected a folder"):
        reproduce(["fake"], tmp_path / "file")


def test_missing_matplotlib_is_said_before_any_work(fake, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="Pictures need matplotlib"):
        reproduce(["fake"], tmp_path)
    assert fake.computed == []


def test_a_report_that_fails_leaves_the_configuration_as_it_was(fake, tmp_path, monkeypatch):
    def report(tables, size):
        raise ValueError("nothing to report")

    monkeypatch.setitem(package.FIGURES, "fake", dataclasses.replace(package.FIGURES["fake"], report=report))
    with jax.enable_x64(False):
        with pytest.raises(ValueError, match="nothing to report"):
            reproduce(["fake"], tmp_path)
        assert not jax.config.read("jax_enable_x64")


def test_the_bar_is_drawn_where_asked_for(fake, tmp_path, capsys):
    reproduce(["fake"], tmp_path, progress=True)
    assert "3/3" in capsys.readouterr().err
