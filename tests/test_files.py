"""Files of arrays with what is said about them: the hash, what is left after a failure, what is swept."""

import dataclasses
import errno
import hashlib
import itertools
import json
import os
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from safetensors.numpy import save as as_safetensors

from tightrope import files
from tightrope.files import FileError, Folder, Form, as_path, beside, replace_file, seal, sweep

ARRAYS = {"b": np.arange(6.0).reshape(2, 3).T, "a": np.array([1, 2], np.int32)}
ABOUT = {"z": 1, "a": [None, "x"]}
THING = Form("thing", 3, "Make another.")


def test_the_hash_is_over_names_kinds_shapes_and_values():
    sha = hashlib.sha256(json.dumps(ABOUT, sort_keys=True).encode())
    sha.update(b"a <i4 (2,)")
    sha.update(np.array([1, 2], "<i4").tobytes())
    sha.update(b"b <f8 (3, 2)")
    sha.update(np.arange(6.0).reshape(2, 3).T.tobytes(order="C"))
    assert seal(ABOUT, ARRAYS) == sha.hexdigest()
    assert seal(dict(reversed(ABOUT.items())), ARRAYS) == sha.hexdigest()  # whatever the order of the keys
    assert seal(ABOUT) == seal(ABOUT, {}) == hashlib.sha256(json.dumps(ABOUT, sort_keys=True).encode()).hexdigest()


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "a.thing"
    THING.write(path, ARRAYS, ABOUT)
    arrays, about = THING.read(path)
    assert about == ABOUT
    assert set(arrays) == set(ARRAYS)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, ARRAYS[name])
        assert array.dtype == ARRAYS[name].dtype
    assert [p.name for p in tmp_path.iterdir()] == ["a.thing"]


def test_what_cannot_be_read_says_why(tmp_path):
    path = tmp_path / "a.thing"

    def said(content=None, form=THING):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(FileError) as caught:
            form.read(path)
        sentence, remedy = str(caught.value).replace(str(path), "FILE").rsplit(" Make", 1)
        assert remedy == " another."
        return sentence

    assert said().startswith("FILE cannot be read as a thing (")
    assert said(b"a letter").startswith("FILE cannot be read as a thing (")
    assert said(as_safetensors(ARRAYS)) == "FILE is not a tightrope thing file."
    assert said(as_safetensors(ARRAYS, {"tightrope": "[1]"})) == "FILE is not a tightrope thing file."
    THING.write(path, ARRAYS, ABOUT)
    assert said(form=dataclasses.replace(THING, kind="other thing")) == "FILE is not a tightrope other thing file."
    assert said(form=dataclasses.replace(THING, number=4)) == "FILE was written by another version of tightrope."
    THING.write(path, ARRAYS, ABOUT | {"version": "9.9"})
    assert said(form=dataclasses.replace(THING, number=4)) == "FILE was written by another version of tightrope, 9.9."
    named = {"format": "tightrope thing 3"} | ABOUT
    sealed = {"tightrope": json.dumps(named | {"sha256": seal(named, {})})}
    damaged = "FILE was changed or damaged after it was written: its hash does not match."
    assert said(as_safetensors({"a": ARRAYS["a"]}, sealed)) == damaged
    assert said(as_safetensors({"a": ARRAYS["a"]}, {"tightrope": json.dumps(named)})) == damaged


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.thing"
    replace_file(path, b"old")
    synced = []
    monkeypatch.setattr(files.os, "fsync", lambda number: synced.append(os.fstat(number).st_size))
    replace_file(path, b"new")
    # written before it is asked to be kept, and before it takes the place of the old one
    assert synced == [len(b"new")]

    def fails(*given):
        raise OSError("no")

    monkeypatch.setattr(files.os, "replace", fails)
    with pytest.raises(OSError, match="no"):
        replace_file(path, b"newer")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.thing"]
    monkeypatch.setattr(files, "open", fails, raising=False)
    with pytest.raises(OSError, match="no"):
        replace_file(path, b"newer")


def test_what_dead_processes_left_is_swept_and_nothing_else(tmp_path, monkeypatch):
    dead, alive = 2**22 + 1, os.getpid()  # beyond the largest number of a process
    names = [
        f".a.{dead}.tmp",
        f".a.{alive}.tmp",
        ".a.x.tmp",
        f".b.{dead}.tmp",
        f"a.{dead}.tmp",
        ".a.tmp",
        f".a.{10**30}.tmp",
    ]
    for name in names:
        (tmp_path / name).touch()
    monkeypatch.setattr(files.os, "name", "nt")
    sweep(tmp_path / "a")
    assert len(list(tmp_path.iterdir())) == len(names)
    monkeypatch.setattr(files.os, "name", "posix")
    sweep(tmp_path / "a")
    assert {p.name for p in tmp_path.iterdir()} == {
        f".a.{alive}.tmp",
        ".a.x.tmp",
        f".b.{dead}.tmp",
        f"a.{dead}.tmp",
        ".a.tmp",
    }
    assert files._lives(alive)

    def somebody_elses(*given):
        raise PermissionError

    monkeypatch.setattr(files.os, "kill", somebody_elses)
    assert files._lives(alive)


# ---- folders -----------------------------------------------------------------------------------------------------------

FOLDER = Folder(Form("model", 1, "Fit again."), "tests", "a.bin", "a.json", ("picture.png",))


def save(folder, content, **about):
    FOLDER.write(folder, lambda path: replace_file(path, content), about)


def read(folder):
    arrays, about = FOLDER.read(folder)
    return arrays.read_bytes(), about["x"]


def test_a_folder_that_was_changed_or_is_something_else_is_refused(tmp_path):
    def said(change):
        folder = tmp_path / str(len(os.listdir(tmp_path)))
        save(folder, b"old", x=[1, 2])
        assert read(folder) == (b"old", [1, 2])
        change(folder)
        with pytest.raises(FileError) as caught:
            FOLDER.read(folder)
        return str(caught.value).removeprefix(str(folder))

    def edit(**values):
        def change(folder):
            known = json.loads((folder / "a.json").read_text())
            (folder / "a.json").write_text(json.dumps(known | values))

        return change

    damaged = " was changed or damaged after it was written: its hash does not match. Fit again."
    assert said(edit(x=[2, 1])) == f"/a.json{damaged}"
    assert said(lambda folder: (folder / "a.bin").write_bytes(b"odd")) == f"/a.bin{damaged}"
    assert said(edit(format="x")) == "/a.json is not a tightrope model file. Fit again."
    other = edit(format="tightrope model 9", version="9.9")
    assert said(other) == "/a.json was written by another version of tightrope, 9.9. Fit again."
    assert said(lambda folder: (folder / "a.json").write_text("{")).startswith("/a.json cannot be read as a model (")
    for name in ("a.json", "a.bin"):
        gone = said(lambda folder, name=name: (folder / name).unlink())
        assert gone == f" has no {name}; expected a folder that tests wrote."
    with pytest.raises(FileError, match="is no folder; expected a folder that tests wrote"):
        FOLDER.read(tmp_path / "nothing")


@pytest.mark.parametrize("killed_at", range(1, 6))
def test_a_save_that_is_killed_leaves_the_old_model_or_the_new_one(killed_at, tmp_path, monkeypatch):
    """Whatever file it was about to put in its place, and saving again afterwards works."""
    save(tmp_path, b"old", x=1)
    put, calls = os.replace, itertools.count(1)

    def killed(*paths):
        if next(calls) == killed_at:
            raise KeyboardInterrupt
        put(*paths)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(os, "replace", killed)
        save(tmp_path, b"new", x=2)
        assert killed_at == 5  # four files are put in their places: two beside, then both
    assert read(tmp_path) == ((b"old", 1) if killed_at < 4 else (b"new", 2))
    save(tmp_path, b"newer", x=3)
    assert read(tmp_path) == (b"newer", 3)
    assert not list(tmp_path.glob("*.new"))


def test_a_save_that_fails_halfway_leaves_nothing_of_itself(tmp_path):
    save(tmp_path, b"old", x=1)
    with pytest.raises(TypeError, match="not JSON serializable"):
        save(tmp_path, b"new", x=object())  # the arrays are written by then
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "a.json"]
    assert read(tmp_path) == (b"old", 1)


def test_words_are_read_as_they_were_written(tmp_path):
    words = ["größer", "ß", "北京"]
    save(tmp_path, b"", x=words)
    folder = 'Folder(Form("model", 1, "Fit again."), "tests", "a.bin", "a.json", ())'
    code = f"from tightrope.files import Folder, Form; print(ascii({folder}.read({str(tmp_path)!r})[1]['x']))"
    plain = os.environ | {
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "LC_ALL": "C",
    }  # where text is ASCII by default
    said = subprocess.run([sys.executable, "-c", code], env=plain, capture_output=True, text=True)
    assert said.stdout.strip() == ascii(words), said.stderr


def test_the_path_of_a_file_is_a_path_or_text(tmp_path):
    assert as_path(tmp_path / "a") == as_path(str(tmp_path / "a")) == tmp_path / "a"
    for given in (None, 3, b"a", "", "a\0b", "/"):
        with pytest.raises(TypeError, match=r"path is .*; expected the path of a file"):
            as_path(given)


# ---- a disk that is full ------------------------------------------------------------------------------------------------


@pytest.fixture
def full(monkeypatch):
    """From now on nothing more goes to the disk."""

    def fails(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill(name="fsync"):
        monkeypatch.setattr(os, name, fails)

    return fill


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_file_on_a_full_disk_stays_as_it_was_and_a_sentence_says_so(tmp_path, full, fails):
    path = tmp_path / "part.csv"
    replace_file(path, b"old")
    full(fails)
    with pytest.raises(
        OSError, match=r"part\.csv could not be written \(No space left.*\); nothing .* has changed\.$"
    ) as said:
        replace_file(path, b"new")
    assert said.value.errno == errno.ENOSPC
    assert str(said.value).startswith(str(path))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["part.csv"]


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_model_on_a_full_disk_stays_as_it_was_and_no_half_of_another_is_left(tmp_path, full, fails):
    save(tmp_path, b"old", x=1)
    full(fails)
    with pytest.raises(OSError, match="could not be written"):
        save(tmp_path, b"new", x=2)
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "a.json"]
    assert read(tmp_path) == (b"old", 1)


def test_an_error_of_another_file_is_not_blamed_on_the_one_that_is_written(tmp_path):
    def write():
        with beside(tmp_path / "out.csv") as unfinished:
            unfinished.touch()
            (tmp_path / "rows.csv").read_bytes()

    with pytest.raises(FileNotFoundError, match=r"No such file.*rows\.csv"):
        write()
    assert not os.listdir(tmp_path)
