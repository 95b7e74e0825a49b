"""Is this the problem you meant? Shapes, gradients, convexity, bias and scales, in sentences."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightrope._errors import whole_number
from tightrope._jaxlib import compiled
from tightrope.confidence import TESTED, serial_dependence
from tightrope.precision import digits
from tightrope.problem.full_data import linearised
from tightrope.problem.problem import Problem, astype_problem, bends, called_back, check_shapes, constraint_names
from tightrope.problem.scales import Finding, Probe, look_at_scales, look_together
from tightrope.sampling import Sampler, Stream, as_sampler
from tightrope.sets.base import Shape, checked_point
from tightrope.tree import Tree, add_scaled, all_finite, astype, dot, eps_of, float_dtype, norm, replace, subtract


@dataclasses.dataclass(frozen=True)
class Report:
    """What `check_problem` found; prints as sentences."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing suspicious was found."""
        return all(f.ok for f in self.findings)

    def __str__(self) -> str:
        return "\n".join(f"{'ok   ' if f.ok else 'CHECK'}  {f.what}: {f.sentence}" for f in self.findings)

    __repr__ = __str__


def check_problem(problem: Problem, data: Any, *, x0: Tree = None, samples: int = 2000, seed: int = 0) -> Report:
    """Probe shapes, gradients, convexity, the order of samples, unbiasedness, scales and constraints that exclude each
    other, on random points and samples; speak in sentences.

    A clean report is not a proof: it says that nothing was found in the places looked at.

    Args:
        problem: the problem.
        data: arrays, or a sampler, as for `minimize`.
        x0: a point, where the domain does not know its shape.
        samples: how many samples to look at.
        seed: decides which points and samples are looked at.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> concave = tr.Problem(lambda x, theta: -((x - theta) ** 2).sum(), None, tr.L2Ball(1.0, shape=2))
        >>> report = tr.check_problem(concave, np.random.default_rng(0).normal(size=(100, 2)), samples=100)
        >>> [finding.what for finding in report.findings if not finding.ok]
        ['convexity']
    """
    sampler = as_sampler(data)
    with digits(sampler.n is not None):
        return _checked(problem, sampler, x0, samples, seed)


def _checked(problem: Problem, sampler: Sampler, x0: Tree, samples: int, seed: int) -> Report:
    x = problem.domain.start() if x0 is None else checked_point("x0", x0, problem.domain.shape)
    x = astype(x, jnp.result_type(float)) if sampler.n is not None else x
    n = check_shapes(problem, x, sampler.example())
    problem = astype_problem(problem, float_dtype(x))
    theta = sampler.some(
        whole_number("check_problem", "samples", samples), whole_number("check_problem", "seed", seed, 0)
    )
    points = _some_points(problem, x, seed)
    names = [*(["the objective"] if problem.knows_objective else []), *constraint_names(problem, n)]

    @compiled
    def at(point, theta):
        f, h = problem.values(point, theta)
        return jnp.concatenate([f[None], h]) if problem.knows_objective else h

    def means(point):
        return at(point, theta)

    findings = [Finding("shapes", True, f"x has {Shape.of(x).size} coordinates; {n} constraint{'s' * (n != 1)}.")]
    findings += [_finite(means, points)]
    if findings[-1].ok:
        findings += [_gradients(means, points, names, problem), _convexity(means, points, names)]
        findings += [_drift(problem, points, theta, sampler)]
        findings += [_bias(problem, points, theta)] if problem.exact_constraints and problem.constraints else []
        probe = Probe(problem, theta, points, constraint_names(problem, n))
        convex = next(f.ok for f in findings if f.what == "convexity")
        findings += look_at_scales(probe) + ([look_together(probe, theta)] if n and convex else [])
    if findings[1].ok and problem.domain.has_lmo and problem.domain.additive:
        findings += _around(means, points_around(problem, x, seed), names, problem)
    if called_back(problem):
        findings += [Finding("speed", True, "the oracle is NumPy, called back once a sample; JAX would be far faster.")]
    return Report(tuple(findings))


def points_around(problem: Problem, x: Tree, seed: int) -> list[Tree]:
    """Points of the set around the domain: x, and ends of it in random directions."""
    return _some_points(replace(problem, domain=problem.domain.enclosing()), x, seed, share=1.0)


def finite_around(problem: Problem, x: Tree, theta: Tree) -> bool:
    """Whether f and h are finite on the set around the domain, as far as a few points and samples can tell."""
    values = compiled(lambda point: problem.values(point, theta))
    return all(bool(all_finite(values(point))) for point in points_around(problem, x, seed=0))


def _some_points(problem: Problem, x: Tree, seed: int, count: int = 6, share: float = 0.7) -> list[Tree]:
    """Points of the domain: x, and others this share of the way to the ends in random directions."""
    domain, points = problem.domain, [x]
    for key in jax.random.split(jax.random.key(seed), count - 1):
        leaves, treedef = jax.tree.flatten(x)
        keys = jax.random.split(key, len(leaves))
        noise = [jax.random.normal(k, v.shape, v.dtype) for k, v in zip(keys, leaves, strict=True)]
        direction = jax.tree.unflatten(treedef, noise)
        far = domain.lmo(direction) if domain.has_lmo else domain.project(add_scaled(x, domain.diameter, direction))
        mixed = add_scaled(x, share, subtract(far, x))
        points.append(jax.tree.map(lambda a, v: jnp.asarray(a, v.dtype), mixed, x))
    return points


def _finite(means: Callable, points: list[Tree]) -> Finding:
    bad = [p for p in points if not np.all(np.isfinite(np.asarray(means(p))))]
    said = (
        "finite at every point tried." if not bad else f"NaN or infinite at {len(bad)} of {len(points)} points tried."
    )
    return Finding("values", not bad, said)


def _around(means: Callable, points: list[Tree], names: list[str], problem: Problem) -> list[Finding]:
    """Split-CSOA evaluates f and h around the domain, too; nothing to say of a set that is its own enclosing one."""
    domain = problem.domain
    if all(bool(domain.contains(p)) for p in points):
        return []
    where, instead = f"on the set around {domain.name}", 'Use method="fw-csoa", which stays in the domain.'
    if not _finite(means, points).ok:
        said = (
            f'f or h has no finite values {where}, where Split-CSOA would need them. {instead} So does method="auto".'
        )
        return [Finding("around", True, said)]
    convex = _convexity(means, points, names)
    if convex.ok:
        return [Finding("around", True, f"finite {where}, too, and no chord was found below the functions.")]
    said = f"{where} {convex.sentence} Split-CSOA has no guarantee here. {instead}"
    return [Finding("around", domain.cheap_projection, said)]  # with a cheap projection nobody need take Split-CSOA


def _gradients(means: Callable, points: list[Tree], names: list[str], problem: Problem) -> Finding:
    """The derivative along random chords must lie between the two one-sided differences, which at a kink are apart."""
    eps, jacobian = eps_of(points[0]), compiled(jax.jacrev(means))
    step = eps ** (1 / 3)
    worst, culprit, flat = 0.0, "", np.ones(len(names), bool)
    for here, there in itertools.pairwise(points):
        direction = subtract(there, here)
        middle = add_scaled(here, 0.5, direction)
        up, level, down = (np.asarray(means(add_scaled(middle, t * step, direction))) for t in (1, 0, -1))
        rows = jacobian(middle)
        slope = np.asarray(jax.vmap(lambda row, d=direction: dot(row, d))(rows))
        flat &= slope == 0
        sides = (up - level) / step, (level - down) / step
        error = np.maximum(np.maximum(np.minimum(*sides) - slope, slope - np.maximum(*sides)), 0)
        scale = np.abs(slope) + np.abs(up) + float(norm(direction)) * eps
        relative = error / np.maximum(scale, 1e-30)
        if relative.max() > worst:
            worst, culprit = float(relative.max()), names[int(relative.argmax())]
    if flat.any():
        name = names[int(flat.argmax())]
        return Finding(
            "gradients", False, f"{name} does not change with x at any point tried; is it constant, or rounded?"
        )
    ok = worst < 30 * eps ** (1 / 2)
    if ok:
        return Finding("gradients", True, "agree with finite differences.")
    source = "the derivative" if bends(problem) else "the oracle's gradient"
    return Finding(
        "gradients",
        False,
        f"{source} of {culprit} differs from finite differences by {worst:.1%}; is it smooth there?",
    )


def _convexity(means: Callable, points: list[Tree], names: list[str]) -> Finding:
    """The chord must lie above the function at midpoints."""
    values = [np.asarray(means(p)) for p in points]
    eps = eps_of(points[0])
    for i in range(len(points)):
        for j in range(i):
            middle = np.asarray(means(add_scaled(points[i], 0.5, subtract(points[j], points[i]))))
            excess = middle - (values[i] + values[j]) / 2
            room = 1e3 * eps * (np.abs(values[i]) + np.abs(values[j]) + np.abs(middle))
            if np.any(excess > room):
                name = names[int(np.argmax(excess - room))]
                return Finding(
                    "convexity", False, f"{name} is not convex: above its chord by {excess.max():.3g} at a midpoint. The "
                    "guarantees need convex functions."
                )  # fmt: skip
    return Finding("convexity", True, "no chord was found below the functions.")


def _drift(problem: Problem, points: list[Tree], theta: Tree, sampler: Sampler) -> Finding:
    """The samples in their order: a sorted stream has halves with different means, and one in the order of time or of groups
    has neighbours that are alike."""
    streamed = isinstance(sampler, Stream)
    rows = theta if streamed else sampler.in_order(len(jax.tree.leaves(theta)[0]))
    if rows is None:
        return Finding("sampling", True, "samples are drawn by the library from one distribution.")
    values = np.column_stack(
        [_values(problem, x, rows) for x in points[:3]]
    )  # at one point h may not depend on samples
    values = values[:, np.all(np.isfinite(values), axis=0)][:, :TESTED]
    first, second = np.array_split(values, 2)
    if len(second) < 10:
        return Finding("sampling", True, "there are too few samples to see in what order they come.")
    if streamed:
        error = np.sqrt(first.var(axis=0) / len(first) + second.var(axis=0) / len(second))
        apart = np.abs(first.mean(axis=0) - second.mean(axis=0))
        if np.any(apart > 5 * error + 1e-6 * np.abs(values).max(axis=0)):  # the last term is for rounding
            said = "the first and the second half of the stream have different means; is it sorted, or does it drift?"
            return Finding("sampling", False, said)
    found = serial_dependence(values)
    if not found.found:
        said = "the first and the second half of the stream agree, and neighbours are not alike."
        rest = "neighbouring rows are not alike, and the library draws them in an order of its own."
        return Finding("sampling", True, said if streamed else rest)
    time = f"neighbouring {{}} are alike (correlation time about {found.inflation.max() / 2:,.2g} or more)"
    if streamed:
        said = (
            "a run follows such samples, and may violate constraints that its own means satisfy. Shuffle the stream in a "
            "buffer of many such times, thin it, or take more samples a step."
        )
        return Finding("sampling", False, f"{time.format('samples')}: {said}")
    said = (
        "runs do not mind, because the library draws rows in an order of its own; bounds beyond the data do: where rows "
        "come in time or in groups, hold out whole stretches or groups."
    )
    return Finding("sampling", True, f"{time.format('rows')}: {said}")


def _values(problem: Problem, x: Tree, theta: Tree) -> np.ndarray:
    """f and h of every sample at x."""
    near = linearised(problem, x, theta)
    f, h = jax.vmap(lambda one: near.sample_values(x, one))(theta)
    return np.asarray(jnp.concatenate([f[:, None], h], axis=1), float)


def _bias(problem: Problem, points: list[Tree], theta: Tree) -> Finding:
    """Sampled constraints must average to the exact ones."""
    extra = () if problem.params is None else (problem.params,)
    assert problem.constraints is not None
    assert problem.exact_constraints is not None
    for x in points:
        h = np.asarray(jax.vmap(lambda one, x=x: problem.constraints(x, one, *extra))(theta), float)  # pyright: ignore
        exact = np.asarray(problem.exact_constraints(x, *extra), float)
        error = h.std(axis=0) / np.sqrt(len(h)) + 1e-6 * np.abs(exact)
        if np.any(np.abs(h.mean(axis=0) - exact) > 5 * error):
            return Finding("bias", False, "the sampled constraints do not average to exact_constraints.")
    return Finding("bias", True, "the sampled constraints average to exact_constraints.")
