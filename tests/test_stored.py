from pathlib import Path

import stored


def test_few_numbers_are_kept():
    assert stored.count(Path(__file__).parent) <= stored.MOST


def test_what_has_changed_is_refused(tmp_path, monkeypatch):
    test = str(tmp_path / "test_it.py")
    monkeypatch.setenv("TIGHTROPE_STORED", "write")
    stored.same(test, "a", {"x": [1.0, 1e-3], "status": "SOLVED", "dual": []})
    stored.same(test, "b", {"x": [2.0, float("nan")]})
    monkeypatch.delenv("TIGHTROPE_STORED")
    stored.same(test, "b", {"x": [2.0 + 1e-9, float("nan")]})
    same = {"x": [1.0, 1e-3 + 1e-10], "status": "SOLVED", "dual": []}
    stored.same(test, "a", same)
    for other in ({"x": [1.0, 1e-3 + 1e-8]}, {"status": "FINISHED"}, {"dual": [0.0]}, {"more": [1.0]}):
        try:
            stored.same(test, "a", same | other)
        except AssertionError:
            continue
        raise AssertionError(f"{other} is not seen")
    assert stored.count(tmp_path) == 4
