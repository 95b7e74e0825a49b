"""How many files a call walks through: what a reader has to open who wants to know what `minimize` does.

Run as `python -m studies.walks`; prints a table and fails where a call has more than its bar. A file counts that runs a
function for the second of two equal calls: what was compiled for the first is not walked again. A return is a pair of
files of which the first calls the second, and the second was there before the first: one who reads along goes back.
Left out are seven files that everybody calls, as one calls NumPy; the last of them has `compiled`, which stands for
`jax.jit`.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

import tightrope as tr
from studies.page import markdown

ROOT = Path(tr.__file__).parent
HELPERS = {"tree", "_errors", "precision", "_compilation_cache", "columns", "_threads", "_jaxlib"}


class Walk(NamedTuple):
    """What one call went through."""

    files: int
    returns: int  # pairs of files
    runs: int  # of `minimize`, from its first line to its last


BARS = {  # what was reached, never to be passed again
    "minimize(rows)": Walk(22, 11, 1),
    "minimize(stream)": Walk(34, 26, 1),
    "sweep": Walk(16, 7, 0),
    "certify": Walk(21, 12, 0),
    "fit(p_rule)": Walk(
        21, 13, 0
    ),  # of these a file and two returns are learning whole or not at all, a file is the loss
    "fit(covariance)": Walk(41, 31, 1),
}
WANTED = {"minimize(rows)": (22, 12, 1), "certify": (25, "", 1)}


class Tracer:
    """Counts while it is open what is called in a folder.

    Example:
        >>> ball = tr.L2Ball(1.0, shape=2)
        >>> with Tracer(ROOT) as seen:
        ...     _ = ball.name
        >>> seen.order
        ['sets/base']
    """

    def __init__(self, root: Path):
        self.root = f"{root}/"
        self.order: list[str] = []  # files, as they were come to
        self.pairs: dict[tuple[str, str], None] = {}  # of files, of which the first calls the second
        self.runs = 0
        self.names: dict[CodeType, str | None] = {}

    def __enter__(self) -> "Tracer":
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        name = self._file(frame.f_code) if event == "call" else None
        if name is None:
            return
        caller, above = None, frame.f_back
        while above is not None:
            there = self._file(above.f_code)
            if there is not None and above.f_code.co_name == "<module>":  # a file that is being loaded
                return
            caller, above = caller or there, above.f_back
        if frame.f_code.co_name == "<module>":
            return
        self.runs += (name, frame.f_code.co_name) == ("_minimize", "minimize")
        if name not in self.order:
            self.order.append(name)
        if caller is not None and caller != name:
            self.pairs[caller, name] = None

    def _file(self, code: CodeType) -> str | None:
        """The file of a function, without folder and ending; None of one elsewhere, and of a helper."""
        if code not in self.names:
            inside = code.co_filename.startswith(self.root)
            name = code.co_filename.removeprefix(self.root).removesuffix(".py")
            self.names[code] = name if inside and name not in HELPERS else None
        return self.names[code]

    @property
    def walk(self) -> Walk:
        """The counts."""
        back = [(a, b) for a, b in self.pairs if self.order.index(b) < self.order.index(a)]
        return Walk(len(self.order), len(back), self.runs)


def example() -> tuple[tr.Problem, np.ndarray]:
    """A problem with a constraint that binds, and its rows."""
    problem = tr.Problem(
        objective=lambda x, theta: ((x - theta) ** 2).sum() / 2,
        constraints=lambda x, theta: (theta * x).sum()[None],
        domain=tr.L2Ball(2.0, shape=2),
        levels=1.0,
    )
    return problem, np.random.default_rng(0).normal(1.0, 1.0, size=(4000, 2))


def people() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels, and a sensitive attribute that has to do with both."""
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 2000)
    x = rng.normal(size=(2000, 3)) + 0.5 * s[:, None]
    return x, (x.sum(axis=1) + rng.normal(size=2000) > 0.75).astype(int), s


def calls() -> dict[str, Callable[[], Callable[[], Any]]]:
    """By name: what makes all that a call needs, and returns the call."""

    def on_rows() -> Callable[[], Any]:
        problem, rows = example()
        return lambda: tr.minimize(problem, rows)

    def on_a_stream() -> Callable[[], Any]:
        problem, rows = example()
        return lambda: tr.minimize(problem, tr.Stream([rows]), steps=1000)

    def sweep() -> Callable[[], Any]:
        problem, rows = example()
        return lambda: tr.sweep(problem, rows, tr.CSOA(eta0=np.array([0.1, 1.0])), steps=100)

    def certify() -> Callable[[], Any]:
        problem, rows = example()
        result = tr.minimize(problem, rows[:2000])
        return lambda: tr.certify(problem, result, rows[2000:], ranges=(-10, 10))

    def fit(**asked: Any) -> Callable[[], Any]:
        X, y, s = people()
        return lambda: tr.FairLogisticRegression(**asked).fit(X, y, sensitive_features=s)

    return {
        "minimize(rows)": on_rows,
        "minimize(stream)": on_a_stream,
        "sweep": sweep,
        "certify": certify,
        "fit(p_rule)": lambda: fit(p_rule=0.8),
        "fit(covariance)": lambda: fit(covariance=0.1),
    }


def walked(make: Callable[[], Callable[[], Any]]) -> Tracer:
    """The second of two equal calls."""
    call = make()
    call()
    with Tracer(ROOT) as seen:
        call()
    return seen


def past_their_bars(found: dict[str, Walk]) -> list[str]:
    """Sentences on what is more than its bar."""
    return [
        f"{name}: {part} {now}, where {bar} is the bar"
        for name, walk in found.items()
        for part, now, bar in zip(Walk._fields, walk, BARS[name], strict=True)
        if now > bar
    ]


def report(found: dict[str, Walk]) -> list[str]:
    """A table: what there is, the bar, and what is wanted."""
    heads = ["call", *(f"{part}{of}" for part in Walk._fields for of in ("", ", bar", ", wanted"))]
    wanted = {name: WANTED.get(name, [""] * 3) for name in found}
    return markdown(
        heads, ([name, *sum(zip(walk, BARS[name], wanted[name], strict=True), ())] for name, walk in found.items())
    )


def main() -> None:
    """All calls as a table; or of the one that is named its files and pairs of files, in their order."""
    if sys.argv[1:]:
        seen = walked(calls()[sys.argv[1]])
        print(*seen.order, "", *(f"{a} -> {b}" for a, b in seen.pairs), sep="\n")
        return
    found = {name: walked(make).walk for name, make in calls().items()}
    print("\n".join(report(found)))
    failed = past_their_bars(found)
    if failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    main()
