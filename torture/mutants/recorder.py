"""A plugin of pytest that records, for every test, its seconds and which lines of the package it ran.

Lines that are traced into a compiled program count for the test that traced them."""

import json
import os
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

FOLDER = "TIGHTROPE_MUTANTS_RECORD"  # where records go; each process writes its own


class Recorder:
    """The lines and the seconds of each test that passed."""

    def __init__(self, package: str) -> None:
        self.package, self.tests, self.lines, self.passed = package, {}, defaultdict(set), True

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(self.package) or frame.f_code.co_name == "<module>":
            return None
        lines = self.lines[name]

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add(frame.f_lineno)
            return line

        return line(frame, event, argument)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.lines, self.passed, began = defaultdict(set), True, time.perf_counter()
        threading.settrace(self._call)
        sys.settrace(self._call)
        yield
        sys.settrace(None)
        threading.settrace(None)  # pyright: ignore[reportArgumentType]
        if self.passed:
            files = {os.path.relpath(name, self.package): sorted(lines) for name, lines in self.lines.items()}
            self.tests[item.nodeid] = {"seconds": time.perf_counter() - began, "lines": files}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed &= report.passed or report.skipped

    def pytest_sessionfinish(self) -> None:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        (Path(os.environ[FOLDER]) / f"{worker}.json").write_text(json.dumps(self.tests))


def pytest_configure(config: pytest.Config) -> None:
    """Record what runs in the package that tests import."""
    import tightrope

    config.pluginmanager.register(Recorder(os.path.dirname(tightrope.__file__)))
