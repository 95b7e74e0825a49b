"""What steps cost, and how many of them a budget pays for: the one place where methods and solvers are counted.

A step of a solver is a look. It draws no samples, projects nothing and minimises no linear function that would be counted
here: its programmes on the host are small.
"""

from tightrope.methods import Cost, Method, Refreshing
from tightrope.methods.base import Algorithm
from tightrope.sets import ConvexSet
from tightrope.solvers import Solver


def gradients_used(algorithm: Algorithm, steps: int, batch_size: int, n: int) -> int:
    """Per-row gradients of a run on n rows, those of looks at all of them included; n of them are a pass."""
    if isinstance(algorithm, Solver):
        return algorithm.gradients(steps, n)
    assert isinstance(algorithm, Method)
    return algorithm.steps.cost(steps).gradients * batch_size + algorithm.steps.looks(steps, n).gradients


def steps_within(algorithm: Algorithm, passes: float, batch_size: int, n: int) -> int:
    """The most steps whose gradients are at most so many passes; at least one."""
    budget = round(passes * n)
    low, high = 1, max(2, budget + 1)  # a step takes one gradient or more
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gradients_used(algorithm, middle, batch_size, n) <= budget else (low, middle)
    return low


def cost_of(algorithm: Algorithm, domain: ConvexSet, steps: int, batch_size: int, n: int) -> Cost:
    """What so many steps cost on n rows."""
    gradients = gradients_used(algorithm, steps, batch_size, n)
    if not isinstance(algorithm, Method):
        return Cost(samples=0, gradients=gradients)
    one, looks = algorithm.steps.cost(steps, domain), algorithm.steps.looks(steps, n, domain)
    return Cost(one.samples * batch_size, gradients, one.projections + looks.projections, one.lmos + looks.lmos)


def cost_of_a_step(kind: type[Algorithm]) -> Cost:
    """What a step costs with a batch of one; of a solver nothing but gradients, as many as there are rows."""
    return kind.cost if issubclass(kind, Method) else Cost(samples=0, gradients=0)


def draws_of(algorithm: Algorithm) -> int:
    """Independent batches that a step sees; none of a solver."""
    return cost_of_a_step(type(algorithm)).samples


def for_rows(algorithm: Algorithm, n: int | None, batch_size: int) -> Algorithm:
    """The method fitted to data of n rows, where they are at hand."""
    return algorithm.for_rows(n, batch_size) if isinstance(algorithm, Refreshing) and n is not None else algorithm
