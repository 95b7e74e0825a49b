"""Certificates held to their word: how often they are wrong at the boundary, how wide they are, and what selection does.

Run as `python -m studies.certificates`; writes docs/certificates.md.
"""

import argparse
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from studies.page import markdown
from tightrope.confidence import (
    Anytime,
    binomial_lower,
    binomial_upper,
    bounded_below,
    bounded_upper,
    skewness_shortfall,
    studentised_upper,
)
from tightrope.datasets import load_adult
from tightrope.problems import fair_classification

CONFIDENCE = 0.95
CRITICAL = 1.6449  # of a normal, one-sided
COUNTS = 1, 10, 100
HEAVY = 0.2  # of 1 - confidence: the shortfall from which on a sample is said to look heavy-tailed

Draw = Callable[[np.random.Generator, Any], np.ndarray]


class Law(NamedTuple):
    """A distribution of values in a range, with its mean."""

    name: str
    draw: Draw
    mean: float
    low: float = 0.0
    high: float = 1.0


LAWS = (
    Law("uniform", lambda rng, shape: rng.random(shape), 0.5),
    Law("0 or 1, half each", lambda rng, shape: (rng.random(shape) < 0.5) * 1.0, 0.5),
    Law("Beta(12, 12)", lambda rng, shape: rng.beta(12, 12, shape), 0.5),
    Law("Beta(50, 50)", lambda rng, shape: rng.beta(50, 50, shape), 0.5),
    Law("Beta(0.5, 9.5)", lambda rng, shape: rng.beta(0.5, 9.5, shape), 0.05),
    Law("1 in 400 is 1", lambda rng, shape: (rng.random(shape) < 0.0025) * 1.0, 0.0025),
    Law("1 in 400 is 0", lambda rng, shape: (rng.random(shape) >= 0.0025) * 1.0, 0.9975),
)

TAILS = (
    ("normal", lambda rng, shape: rng.standard_normal(shape), 0.0),
    ("exponential", lambda rng, shape: rng.standard_exponential(shape), 1.0),
    ("lognormal, sigma 1", lambda rng, shape: np.exp(rng.standard_normal(shape)), np.exp(0.5)),
    ("lognormal, sigma 2", lambda rng, shape: np.exp(2 * rng.standard_normal(shape)), np.exp(2.0)),
    ("Pareto, index 2.5", lambda rng, shape: rng.pareto(2.5, shape), 1 / 1.5),
    ("Pareto, index 1.5", lambda rng, shape: rng.pareto(1.5, shape), 2.0),
)


class Share(NamedTuple):
    """How many of so many repetitions."""

    times: int
    of: int

    @property
    def above(self) -> bool:
        """Whether the true share is above what was promised, by an exact one-sided interval at 99.9 %."""
        return binomial_lower(self.times, self.of, 0.999) > 1 - CONFIDENCE

    def __str__(self) -> str:
        upper = binomial_upper(self.times, self.of, CONFIDENCE)
        return f"{100 * self.times / self.of:.1f} % (at most {100 * upper:.1f} %)"


# ---- false certification at the boundary -------------------------------------------------------------------------------


def at_the_boundary(repetitions: int, n: int = 500) -> list[list[Any]]:
    """How often "every constraint holds" is said when one of N constraints is exactly at its level and the rest well below.

    That is the worst case: with more of them at their levels, it is said less often. Values of all constraints are made from
    the same draw in pairs that go opposite ways, so that they depend on each other.
    """
    rows = []
    for law in LAWS[:1] + LAWS[4:6]:
        for count in COUNTS:
            rng = np.random.default_rng(2 * count)
            said = {"n fixed": 0, "at all times": 0, "studentised": 0}
            part = max(1, repetitions // max(1, count // 4))  # in parts, for memory
            for start in range(0, repetitions, part):
                size = min(part, repetitions - start)
                values = law.draw(rng, (n, size, 1)) * np.ones(count)
                values[..., 1::2] = law.low + law.high - values[..., 1::2]  # the other way round
                means = np.where(np.arange(count) % 2 == 0, law.mean, law.low + law.high - law.mean)
                spread = values.std()
                levels = means + np.where(np.arange(count) > 0, 5 * spread / np.sqrt(n), 0.0) * 4
                flat, level = values.reshape(n, -1), np.tile(levels, size)
                ones = np.ones(flat.shape[1])
                fixed = bounded_below(flat, law.low, law.high, level, CONFIDENCE)
                said["n fixed"] += int(fixed.reshape(size, count).all(axis=1).sum())
                student = studentised_upper(flat, CONFIDENCE) <= level
                said["studentised"] += int(student.reshape(size, count).all(axis=1).sum())
                seen, ever = Anytime.start(law.low * ones, law.high * ones), np.zeros(size, bool)
                for batch in np.split(flat, 20):  # a look after every batch, and the first good one counts
                    seen = seen.add(batch)
                    ever |= seen.below(level, CONFIDENCE).reshape(size, count).all(axis=1)
                said["at all times"] += int(ever.sum())
            rows.append([law.name, count, *(Share(k, repetitions) for k in said.values())])
    return rows


def heavy_tails(repetitions: int) -> list[list[Any]]:
    """How often studentised bounds miss, and how often the look at the tails says that they may."""
    rows = []
    for name, draw, mean in TAILS:
        for n in (200, 2000, 10_000):
            rng = np.random.default_rng(n)
            missed, warned, both, low = 0, 0, 0, 0
            for part in np.array_split(np.arange(repetitions), max(1, repetitions * n // 2_000_000)):
                values = draw(rng, (n, len(part)))
                upper = studentised_upper(values, CONFIDENCE)
                heavy = skewness_shortfall(values, CONFIDENCE) > HEAVY * (1 - CONFIDENCE)
                missed, warned = missed + int((upper < mean).sum()), warned + int(heavy.sum())
                both += int((heavy | (upper >= mean)).sum())
                low += int((studentised_upper(-values, CONFIDENCE) < -mean).sum())
            rows.append([name, f"{n:,}", *(f"{100 * k / repetitions:.1f} %" for k in (missed, low, warned))])
    return rows


UNKNOWN = (
    ("999 once in 1,000, else -1", 1000, lambda rng, n: rng.normal(-1, 0.01, n) + 1000.0 * (rng.random(n) < 1e-3)),
    ("50 twice in 1,000, else normal", 500, lambda rng, n: np.where(rng.random(n) < 2e-3, 50, rng.normal(size=n)) - 0.1),
    ("Pareto, index 1.1", 500, lambda rng, n: rng.pareto(1.1, n) - 10),
    ("lognormal, sigma 3", 500, lambda rng, n: np.exp(3 * rng.normal(size=n)) - np.exp(4.5)),
    ("exponential", 30, lambda rng, n: rng.exponential(size=n) - 1),
    ("normal", 500, lambda rng, n: rng.normal(size=n)),
    ("normal, correlated over 3 rows", 2000, lambda rng, n: _autoregressive(rng, n, 3)),
    ("normal, correlated over 10 rows", 2000, lambda rng, n: _autoregressive(rng, n, 10)),
    ("normal, correlated over 100 rows", 2000, lambda rng, n: _autoregressive(rng, n, 100)),
)  # fmt: skip
"""Values with a mean of 0, of which no range is known: name, number of rows, draw."""


def _autoregressive(rng: np.random.Generator, n: int, time: float) -> np.ndarray:
    from scipy.signal import lfilter

    stay = np.exp(-1 / time)
    noise = np.append(rng.normal(), np.sqrt(1 - stay**2) * rng.normal(size=n - 1))
    return np.asarray(lfilter([1.0], [1.0, -stay], noise))


def accepted(repetitions: int) -> list[list[Any]]:
    """How often a violated constraint holds by `accept="asymptotic"`, and by a studentised bound without a look."""
    asked = tr.Problem(lambda x, theta: x[0], lambda x, theta: theta[None] + 0 * x[0], tr.Box(0.0, 1.0, shape=1))
    rows = []
    for name, n, draw in UNKNOWN:
        rng, said, bare = np.random.default_rng(6), 0, 0
        for _ in range(repetitions):
            values = draw(rng, n).astype(np.float32)
            said += tr.certify(asked, np.zeros(1), values, accept="asymptotic").holds
            bare += studentised_upper(values, CONFIDENCE) <= 0
        rows.append([name, f"{n:,}", Share(bare, repetitions), Share(said, repetitions)])
    return rows


def widths(columns: int, n: int = 10_000) -> list[list[Any]]:
    """How wide bounds are beside the normal approximation with the true standard deviation."""
    rows = []
    for law in LAWS:
        rng = np.random.default_rng(4)
        values = law.draw(rng, (n, columns))
        spread = law.draw(rng, 400_000).std()
        normal, mean = CRITICAL * spread / np.sqrt(n), values.mean(axis=0)
        ones = np.ones(columns)
        seen = Anytime.start(law.low * ones, law.high * ones).add(values)
        wide = {
            "n fixed": bounded_upper(values, law.low, law.high, CONFIDENCE),
            "at all times": seen.upper(CONFIDENCE),
            "Hoeffding": mean + (law.high - law.low) * np.sqrt(np.log(1 / (1 - CONFIDENCE)) / (2 * n)),
        }
        ratio = (law.high - law.low) / spread
        rows.append([law.name, f"{ratio:.1f}", *(float(np.mean(upper - mean) / normal) for upper in wide.values())])
    return rows


# ---- selection, the pull and the gap: on a problem whose truth is known --------------------------------------------------

MEAN, LEVEL = np.array([1.0, 0.5]), 0.5


@functools.cache
def problem() -> tr.Problem:
    """min E |x - theta|^2/2 with E <theta, x> <= 1/2: the mean of theta is all that matters, and it is known."""
    return tr.Problem(
        lambda x, theta: ((x - theta) ** 2).sum() / 2,
        lambda x, theta: (theta * x).sum()[None],
        tr.L2Ball(2.0, shape=2),
        levels=LEVEL,
    )


def optimum() -> np.ndarray:
    """The projection of the mean onto the half-space, which is inside the ball."""
    return MEAN - MEAN * max(MEAN @ MEAN - LEVEL, 0.0) / (MEAN @ MEAN)


def samples(seed: int, n: int) -> np.ndarray:
    """Rows of theta."""
    return np.random.default_rng(seed).normal(MEAN, 1.0, (n, 2)).astype(np.float32)


def selection(repetitions: int, n: int = 500, candidates: int = 50, d: int = 20) -> tuple[Share, Share]:
    """False certification of the candidate that looks best on the judging rows: by these rows, and by others.

    The constraint is E <theta, x> <= 1 with theta of mean e_1; every candidate has x_1 a little above 1 and violates it, so
    every certificate is wrong.
    """
    rng = np.random.default_rng(0)
    mean = np.eye(d)[0]
    points = np.column_stack([np.full(candidates, 1 + 1e-3), rng.normal(0, 1, (candidates, d - 1)) / np.sqrt(d)])
    wrong = [0, 0]
    for _ in range(repetitions):
        judging, others = rng.normal(mean, 1.0, (2, n, d))
        best = points[np.argmin(judging.mean(axis=0) @ points.T)]
        for k, rows in enumerate((judging, others)):
            wrong[k] += studentised_upper(rows @ best - 1, CONFIDENCE) <= 0
    return Share(int(wrong[0]), repetitions), Share(int(wrong[1]), repetitions)


def certified_pulls(repetitions: int, n: int = 1000) -> tuple[Share, Share, float]:
    """How often output="certified" gives a point that violates, gives none, and what it costs in the mean."""
    wrong, none, cost = 0, 0, []
    best = ((optimum() - MEAN) ** 2).sum() / 2
    for k in range(repetitions):
        train, heldout = samples(4 * k, n), samples(4 * k + 2, n)
        asked = {"heldout": heldout, "output": "certified", "accept": "asymptotic"}
        result = tr.minimize(problem(), train, **asked, record=0, progress=False)
        x = np.asarray(result.x, float)
        none += result.status is not tr.Status.ASYMPTOTIC
        wrong += result.status is tr.Status.ASYMPTOTIC and MEAN @ x > LEVEL
        cost.append(((x - MEAN) ** 2).sum() / 2 - best)
    return Share(int(wrong), repetitions), Share(int(none), repetitions), float(np.mean(cost))


def population_gaps(repetitions: int, n: int = 2000) -> tuple[Share, float, float]:
    """How often the bound on the gap in expectation is below the truth, its mean, and the mean of the truth."""
    below, bounds, truths = 0, [], []
    best = ((optimum() - MEAN) ** 2).sum() / 2
    for k in range(repetitions):
        train, heldout = samples(4 * k, n), samples(4 * k + 2, n)
        certificate = tr.certify(problem(), tr.minimize(problem(), train, record=0, progress=False), heldout)
        assert certificate.population_gap is not None
        truth = ((np.asarray(certificate.x, float) - MEAN) ** 2).sum() / 2 - best
        below += certificate.population_gap < truth
        bounds.append(certificate.population_gap)
        truths.append(abs(truth))
    return Share(int(below), repetitions), float(np.mean(bounds)), float(np.mean(truths))


LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "squared": lambda score, y: (score - y) ** 2 / 2,
    "absolute": lambda score, y: jnp.abs(score - y),
    "logistic": lambda score, y: tr.logistic_loss(y * score),
}
SHAPES: tuple[Draw, ...] = (
    lambda rng, shape: rng.normal(size=shape),
    lambda rng, shape: rng.uniform(-1.7, 1.7, shape),
    lambda rng, shape: rng.exponential(size=shape) - 1,
    lambda rng, shape: rng.standard_t(6, shape) / 1.2,
    lambda rng, shape: rng.choice([-1.0, 1.0], shape),
)
COLUMNS = 1, 5
DRAWN = 7  # laws for each loss and number of columns
KNOWN_BY = 100_000  # rows of a law that stand for all of it


def prediction(loss: str, d: int, radius: float, level: float) -> tr.Problem:
    """Predict y from a, with a covariance of the score with z that is at most so much."""
    return tr.Problem(
        lambda x, theta: LOSSES[loss](theta["a"] @ x, theta["y"]),
        lambda x, theta: (theta["z"] * (theta["a"] @ x))[None],
        tr.L2Ball(radius, shape=d),
        levels=level,
    )


class Drawn(NamedTuple):
    """A law of rows (a, y, z), drawn at random itself."""

    loss: str
    weights: np.ndarray
    scales: np.ndarray
    shift: np.ndarray  # of a, with z
    shape: Draw
    noise: Draw
    size: float  # of the noise
    uneven: float  # how much more of it there is where a is large

    @classmethod
    def at_random(cls, rng: np.random.Generator, loss: str, d: int) -> "Drawn":
        """One of them."""
        scales = np.exp(rng.uniform(-1, 1, d))
        weights = rng.normal(size=d) / np.sqrt(d) / scales
        shape, noise = (SHAPES[rng.integers(len(SHAPES))] for _ in range(2))
        return cls(
            loss, weights, scales, rng.normal(size=d) / 2, shape, noise, np.exp(rng.uniform(-2, 1)), rng.random()
        )

    def rows(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Independent ones."""
        z = rng.choice([-1.0, 1.0], n)
        a = (self.shape(rng, (n, len(self.weights))) + z[:, None] * self.shift) * self.scales
        uneven = 1 + self.uneven * np.abs(a[:, 0] / self.scales[0])
        y = a @ self.weights + self.size * uneven * self.noise(rng, n)
        y = np.where(y > 0, 1.0, -1.0) if self.loss == "logistic" else y
        return {name: np.asarray(v, np.float32) for name, v in (("a", a), ("y", y), ("z", z))}


def gaps_of_laws(runs: int, n: int = 800) -> list[list[Any]]:
    """For each loss and number of columns: how often the bound on the gap is below the truth, and means of both.

    Held out are n rows; trained is on a quarter as many, as many and four times as many in turn, because the bound is
    hardest where x is about as near to the optimum as the held-out rows can tell. Every other law has a constraint that
    binds.
    """
    table = []
    for loss in LOSSES:
        for d in COLUMNS:
            jax.clear_caches()  # a hundred programs for each
            rng, below, bounds, truths = np.random.default_rng(2 * d), 0, [], []
            for k in range(DRAWN):
                law = Drawn.at_random(rng, loss, d)
                everybody = law.rows(rng, KNOWN_BY)
                radius = float(np.linalg.norm(law.weights) * rng.choice([0.7, 3.0], p=[0.25, 0.75]) + 0.1)
                free = tr.minimize(prediction(loss, d, radius, 1e3), everybody, record=0, progress=False)
                covariance = float(np.mean(everybody["z"] * (everybody["a"] @ np.asarray(free.x))))
                problem = prediction(loss, d, radius, 0.5 * abs(covariance) if k % 2 else 1e3)
                best = tr.minimize(problem, everybody, record=0, progress=False)
                for run in range(runs):
                    train = law.rows(rng, n * (1, 4, 16)[run % 3] // 4)
                    solved = tr.minimize(problem, train, record=0, progress=False)
                    found = tr.certify(problem, solved, law.rows(rng, n)).population_gap
                    value = LOSSES[loss](everybody["a"] @ np.asarray(solved.x), everybody["y"]).mean()
                    assert found is not None
                    assert best.objective is not None
                    bounds.append(found)
                    truths.append(float(value) - best.objective)
                    below += found < truths[-1]
            table.append([loss, d, DRAWN, Share(int(below), DRAWN * runs), *map(float, map(np.mean, (bounds, truths)))])
    return table


def adult() -> tuple[str, str]:
    """What is said of a fair classifier on Adult: of the solution on one half, and of a point that the other certifies."""
    table = load_adult()
    numbers = table.select_dtypes("number").to_numpy(float)
    features = np.column_stack([(numbers - numbers.mean(axis=0)) / numbers.std(axis=0), np.ones(len(numbers))])
    rich = (table["income"] == ">50K").to_numpy()
    fair, data = fair_classification(features, rich, table["sex"].to_numpy(), threshold=0.05, exact=False)
    order = np.random.default_rng(0).permutation(len(features))
    train, heldout = (
        jax.tree.map(lambda a, at=at: np.asarray(a)[at], data) for at in np.split(order, [len(order) // 2])
    )
    solved = tr.minimize(fair, train, progress=False)
    asked: dict[str, Any] = {"heldout": heldout, "accept": "asymptotic"}
    certified = tr.minimize(fair, train, **asked, output="certified", progress=False)
    return str(tr.certify(fair, solved, **asked)), str(certified.certificate)


# ---- the page ----------------------------------------------------------------------------------------------------------


def report(parts: dict[str, Any]) -> str:
    """The page docs/certificates.md."""
    widest = max(row[2] for row in parts["widths"])
    own, others = parts["selection"]
    wrong, none, cost = parts["pulls"]
    below, bound, truth = parts["gaps"]
    drawn = _of_all(parts["laws"])
    text = Path(__file__).with_name("certificates.md").read_text()
    tables = {
        "BOUNDARY": markdown(["values", "constraints", "n fixed", "at all times", "studentised"], parts["boundary"]),
        "TAILS": markdown(
            ["h", "rows", "bound below the mean", "the same, tail to the left", "warned"], parts["tails"]
        ),
        "ACCEPTED": markdown(
            ["h", "rows", "studentised bound alone", 'holds with accept="asymptotic"'], parts["accepted"]
        ),
        "WIDTHS": markdown(
            ["values", "range / sd", "n fixed", "at all times", "Hoeffding"],
            [[*row[:2], *(f"{number:.2f}" for number in row[2:])] for row in parts["widths"]],
        ),
        "DRAWN": markdown(
            ["loss", "columns", "laws", "bound below the truth", "bound, mean", "gap, mean"],
            [[*row[:4], *(f"{number:.4f}" for number in row[4:])] for row in parts["laws"]],
        ),
    }
    tables |= {name: said.splitlines() for name, said in zip(("SOLVED", "CERTIFIED"), parts["adult"], strict=True)}
    for name, lines in tables.items():
        text = text.replace(f"<!-- {name} -->", "\n".join(lines))
    numbers = {
        "REPETITIONS": f"{parts['repetitions']:,}", "WIDEST": f"{widest:.2f}", "OWN": own, "OTHERS": others, "WRONG": wrong,
        "NONE": none, "COST": f"{cost:.3f}", "PULLS": wrong.of, "BELOW": below, "BOUND": f"{bound:.4f}",
        "TRUTH": f"{truth:.4f}", "GAPS": below.of, "SELECTIONS": own.of,
        "LAWS": sum(row[2] for row in parts["laws"]), "LAWS_BELOW": drawn,
    }  # fmt: skip
    for name, number in numbers.items():
        text = text.replace(f"{{{name}}}", str(number))
    return text


def _of_all(laws: list[list[Any]]) -> Share:
    return Share(*map(sum, zip(*(row[3] for row in laws), strict=True)))


def failures(parts: dict[str, Any]) -> list[str]:
    """The claims that do not hold."""
    said = [f"{row[0]}, {row[1]} constraints" for row in parts["boundary"] if row[2].above or row[3].above]
    said += [f"the width of {row[0]}" for row in parts["widths"] if float(row[1]) <= 20.5 and row[2] > 1.3]
    own, others = parts["selection"]
    said += ["selection on the judging rows does no harm"] if not own.above else []
    said += ["selection on other rows does harm"] if others.above else []
    said += ["certified pulls"] if parts["pulls"][0].above else []
    said += ["gaps in expectation"] if parts["gaps"][0].above else []
    return said + (["gaps in expectation of laws drawn at random"] if _of_all(parts["laws"]).above else [])


def main() -> None:
    """Measure, write, and fail when a claim does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("docs/certificates.md"))
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", False)
    assert jnp.zeros(()).dtype == np.float32
    r, runs = options.repetitions, options.runs
    jobs: dict[str, Callable[[], Any]] = {
        "boundary": lambda: at_the_boundary(r),
        "tails": lambda: heavy_tails(r),
        "accepted": lambda: accepted(300),
        "widths": lambda: widths(100),
        "selection": lambda: selection(r),
        "pulls": lambda: certified_pulls(runs),
        "gaps": lambda: population_gaps(runs // 2),
        "laws": lambda: gaps_of_laws(runs // 8),
        "adult": adult,
    }
    parts: dict[str, Any] = {"repetitions": r}
    for name, job in jobs.items():
        began = time.process_time()
        parts[name] = job()
        print(f"{name}: {time.process_time() - began:.0f} s", flush=True)
    page = report(parts)
    options.out.write_text(page)
    print(page)
    if failed := failures(parts):
        raise SystemExit("A claim failed: " + "; ".join(failed))


if __name__ == "__main__":
    main()
