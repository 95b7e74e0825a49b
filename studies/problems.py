"""A page on the problems with known solutions: what each one is, its picture, its answer and its constants.

Run as `python -m studies.problems`; writes docs/problems.md and docs/problems/*.png.
"""

import argparse
import inspect
import textwrap
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from studies.page import markdown
from tightrope.plotting import new_figure
from tightrope.problems import PROBLEMS, Constants, Solved
from tightrope.tree import ravel

SIDE = 121  # points of a grid
BOUNDS = Constants._fields[: Constants._fields.index("N")]  # N and what follows are columns of their own
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"


def size_of(solved: Solved) -> int:
    """How many coordinates x has."""
    return sum(np.size(v) for v in jax.tree.leaves(solved.x))


def plane(solved: Solved) -> np.ndarray:
    """Two orthonormal directions from the solution: to the start, and to vertices until there are two of them."""
    domain, x = solved.problem.domain, jax.tree.map(jnp.asarray, solved.x)
    flat, back = ravel(x)
    rng = np.random.default_rng(0)
    pulls = [jax.grad(solved.objective)(x), *(back(jnp.asarray(rng.normal(size=flat.size))) for _ in range(4))]
    found: list[np.ndarray] = []
    for point in (domain.start(), *map(domain.lmo, pulls)):
        step = np.asarray(ravel(point)[0] - flat)
        size = np.linalg.norm(step)
        for _ in range(2):  # twice, against rounding
            step = step - sum((d * (d @ step) for d in found), np.zeros_like(step))
        if np.linalg.norm(step) > 1e-3 * size > 0:
            found.append(step / np.linalg.norm(step))
        if len(found) == 2:
            return np.stack(found)
    raise ValueError(f"{solved.name} has fewer than two dimensions.")


def look(solved: Solved, directions: np.ndarray) -> tuple[Any, ...]:
    """A grid (a, b) of the plane through the solution that just covers X, with F, the worst H_i, and what is in X."""
    flat, back = ravel(jax.tree.map(jnp.asarray, solved.x))

    @jax.jit
    def values(a, b):
        def one(a, b):
            x = back(flat + a * directions[0] + b * directions[1])
            return solved.objective(x), jnp.max(solved.constraints(x)), solved.problem.domain.contains(x, 1e-6)

        return jax.vmap(one)(a, b)

    def grid(low, high):
        a, b = np.meshgrid(*np.linspace(low, high, SIDE).T, indexing="ij")
        return a, b, *(np.asarray(v).reshape(a.shape) for v in values(a.ravel(), b.ravel()))

    far = np.full(2, solved.constants.D)  # all of X, for certain; then where X is
    a, b, _, _, inside = grid(-far, far)
    points = np.stack([a[inside], b[inside]])
    pad = 0.06 * np.ptp(points, axis=1) + 2 * far / SIDE
    return grid(points.min(axis=1) - pad, points.max(axis=1) + pad)


def draw(solved: Solved, path: Path) -> None:
    """Left, the plane through the solution: X, the feasible part, level lines of F. Right, the solution itself."""
    figure, axes = new_figure(columns=2, size=(3.3, 2.6))
    left, right = axes[0]
    if size_of(solved) == 1:
        _draw_line(solved, left)
    else:
        _draw_plane(solved, left)
    right.grid(False)
    x = solved.x
    if np.ndim(x) == 2:
        shown = right.imshow(x, cmap="RdBu", vmin=-np.abs(x).max(), vmax=np.abs(x).max())
        figure.colorbar(shown, ax=right)
    else:
        flat = np.asarray(ravel(x)[0])
        right.bar(np.arange(1, flat.size + 1), flat, color=BLUE)
        right.axhline(0, color="black", linewidth=0.8)
        if solved.name == "ill-scaled":
            right.set_yscale("symlog", linthresh=1e-3)
    right.set_title("solution" if solved.feasible else "least violation", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _draw_plane(solved: Solved, axis: Any) -> None:
    a, b, F, H, inside = look(solved, plane(solved))
    axis.contourf(a, b, np.where(inside, 1.0, np.nan), levels=[0.5, 1.5], colors=["#E8E8E8"])
    if np.any(inside & (H <= 0)):
        axis.contourf(a, b, np.where(inside, H, np.nan), levels=[-1e9, 0], colors=["#BFE3D0"])
        axis.contour(a, b, np.where(inside, H, np.nan), levels=[0], colors=[GREEN], linewidths=1.2)
    else:  # where the worst violation is the same
        axis.contour(a, b, np.where(inside, H, np.nan), levels=6, colors=[GREEN], linewidths=1.2)
    axis.contour(a, b, np.where(inside, F, np.nan), levels=8, colors=["#606060"], linewidths=0.6)
    axis.plot(0, 0, "*", color=ORANGE, markersize=11)
    axis.set_title("through the solution", fontsize=9)


def _draw_line(solved: Solved, axis: Any) -> None:
    x = np.linspace(-1, 2, SIDE)
    values = [
        jax.vmap(lambda v, fn=fn: jnp.ravel(fn(v))[0])(x[:, None]) for fn in (solved.objective, solved.constraints)
    ]
    axis.axvspan(-1, 1, color="#BFE3D0", linewidth=0)
    axis.plot(x, values[0], color="#606060", label="F")
    axis.plot(x, values[1], color=GREEN, label="H")
    axis.plot(solved.x, solved.optimum, "*", color=ORANGE, markersize=11)
    axis.legend(frameon=False, fontsize=8)


def report() -> str:
    """The page docs/problems.md."""
    solved = [make() for make in PROBLEMS.values()]
    lines = [
        "# Problems with known solutions",
        "",
        f"Written by `python -m studies.problems`. `tightrope.problems.PROBLEMS` has {len(PROBLEMS)} small problems of",
        "which everything is known: the solution, the multipliers, the optimal value, the largest Slater margin, bounds on",
        "gradients and values, the noise. `PROBLEMS[name]()` is a `Solved`; `EXACT` are the four on which rates are",
        "measured.",
        "",
        "```python",
        "import tightrope as tr",
        "from tightrope.problems import PROBLEMS",
        "",
        'solved = PROBLEMS["power"]()',
        "result = tr.minimize(solved.problem, solved.samples, steps=20_000, track=solved.track)",
        "gap = solved.objective(result.x) - solved.optimum",
        "```",
        "",
        "`solved.rows(n, seed)` is a data set of n fresh samples. Where samples are rows of a finite table, drawn with",
        "replacement, `solved.table` has the rows, and the solution is that of the table as a data set, too.",
        "",
        "In the pictures X is grey, its feasible part green, the lines are level lines of F, the star is the solution. The",
        "plane goes through the solution, the start of the domain and a vertex. Where nothing is feasible, green lines are",
        "level lines of the worst violation.",
        "",
        "## Constants",
        "",
        "Of a single sample, everywhere on X, for the worst constraint. D is the diameter of X; G bound gradients of",
        "expectations; sigma are roots of second moments (of the gradients of f and h, and of the values of h); L is",
        "smoothness in the mean square, mu strong convexity of F.",
        "",
        *markdown(("problem", "size", "N", "F*", "sum of multipliers", "margin", *BOUNDS), map(_cells, solved)),
    ]
    for one, make in zip(solved, PROBLEMS.values(), strict=True):
        said = inspect.getdoc(make) or ""
        lines += ["", f"## {one.name}", "", _escaped(said), "", f"![{one.name}](problems/{one.name}.png)", ""]
        lines += [f"Noise: {one.noise}. X: {one.problem.domain.name}.{_answer(one)}"]
    return "\n".join(lines) + "\n"


def _cells(solved: Solved) -> list[str]:
    best = (f"{solved.optimum:.6g}", f"{solved.dual.sum():.4g}") if solved.feasible else ("none", "none")
    cells = [solved.name, str(size_of(solved)), str(len(solved.dual)), *best, f"{solved.slater:.4g}"]
    return cells + [f"{getattr(solved.constants, name):.3g}" for name in BOUNDS]


def _answer(solved: Solved) -> str:
    if not solved.feasible:
        return f" Least possible violation: {solved.least_violation:.6g}."
    positive = ", ".join(f"{value:.6g}" for value in solved.dual if value > 0)
    return f" F* = {solved.optimum:.8g}; positive multipliers: {positive}.".replace("*", "\\*")


def _escaped(text: str) -> str:
    """Text with the signs escaped that Markdown would not show."""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    escaped = [part.replace("<", "\\<").replace("*", "\\*") for part in paragraphs]
    return "\n\n".join(textwrap.fill(part, 120) for part in escaped)


def main() -> None:
    """Write the page and its pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    out = parser.parse_args().out
    with jax.enable_x64(True):
        for name, make in PROBLEMS.items():
            draw(make(), out / "problems" / f"{name}.png")
            print(f"{name}.png", flush=True)
        (out / "problems.md").write_text(report())


if __name__ == "__main__":
    main()
