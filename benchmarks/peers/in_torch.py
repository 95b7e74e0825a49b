"""The peers on PyTorch: stochastic gradient descent on x, ascent on the multipliers, one mini-batch at a time."""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from benchmarks.peers.contest import BATCH, Adult, C, Contender, Run

LOOK_EVERY, BLOCK = 50, 256  # steps between two looks at the iterates; mini-batches gathered at once
Step = Callable[..., Any]


class InTorch(Contender):
    """The loop that the two libraries share; each says how a step is made.

    What is in their favour: one thread, which is the fastest for tensors this small; rows gathered in blocks rather than
    by a DataLoader; a bare parameter rather than a module; the clock stands still while iterates are looked at, and the
    first look at which the last or the mean iterate is good ends the run, as if they knew when to stop.
    """

    looks_at_all_rows = False

    def __init__(self, adult: Adult):
        super().__init__(adult)
        torch.set_num_threads(1)
        self.features, self.labels, self.sensitive, self.v = (
            torch.tensor(a, dtype=torch.float32) for a in (adult.X, adult.y, adult.s, adult.v)
        )

    def make(self, w: Any, setting: dict[str, Any]) -> Step:
        """A function of a mini-batch that takes one step."""
        raise NotImplementedError

    def values(self, w: Any, setting: dict[str, Any], features: Any, labels: Any, sensitive: Any) -> tuple[Any, Any]:
        """The loss and the two sides of the constraint, which is known exactly or estimated from the mini-batch."""
        scores = features @ w
        q = torch.dot(self.v, w) if setting["exact"] else torch.mean(sensitive * scores)
        level = C - setting["margin"]
        return torch.nn.functional.softplus(-labels * scores).mean(), torch.stack([q - level, -q - level])

    def batches(self, seed: int) -> Iterator[tuple[Any, Any, Any]]:
        """Reshuffled passes without end."""
        generator = torch.Generator().manual_seed(seed)
        while True:
            order = torch.randperm(len(self.labels), generator=generator)
            order = order[: len(order) // BATCH * BATCH]
            for block in order.split(BATCH * BLOCK):
                parts = [a[block].split(BATCH) for a in (self.features, self.labels, self.sensitive)]
                yield from zip(*parts, strict=True)

    def run(self, setting: dict[str, Any], seed: int, limit: float) -> Run:
        w = torch.nn.Parameter(torch.zeros(len(self.v)))
        step, batches = self.make(w, setting), self.batches(seed)
        total, seconds, steps = torch.zeros(len(self.v), dtype=torch.float64), 0.0, 0
        while seconds < limit:
            began = time.perf_counter()
            for batch in itertools.islice(batches, LOOK_EVERY):
                step(*batch)
                total.add_(w.detach())
            seconds, steps = seconds + time.perf_counter() - began, steps + LOOK_EVERY
            last = w.detach().numpy()
            if not np.isfinite(last).all():
                break
            if self.adult.good(last) or self.adult.good(total.numpy() / steps):
                return Run(seconds, True, {"steps": steps})
        return Run(seconds, False, {"steps": steps})

    def step(self) -> float:
        w = torch.nn.Parameter(torch.zeros(len(self.v)))
        step, batches = self.make(w, {"lr": 0.1, "dual_lr": 0.1, "exact": False, "margin": 0.0}), self.batches(0)
        times = []
        for _ in range(6):
            began = time.perf_counter()
            for batch in itertools.islice(batches, 500):
                step(*batch)
            times.append((time.perf_counter() - began) / 500)
        return min(times[1:])

    def grid(self) -> list[dict[str, Any]]:
        names = ("lr", "dual_lr", "exact", "margin")
        values = ((1.0, 0.3, 0.1, 0.03), (1.0, 0.3, 0.1), (True, False), (0.003, 0.0))
        return [dict(zip(names, choice, strict=True)) for choice in itertools.product(*values)]


class Cooper(InTorch):
    """Cooper: a Lagrangian formulation, simultaneous updates, SGD for both."""

    def make(self, w: Any, setting: dict[str, Any]) -> Step:
        import cooper  # pyright: ignore[reportMissingImports]

        values = self.values

        class Fair(cooper.ConstrainedMinimizationProblem):
            def __init__(self):
                super().__init__()
                multiplier = cooper.multipliers.DenseMultiplier(num_constraints=2)
                kind = cooper.ConstraintType.INEQUALITY
                self.sides = cooper.Constraint(constraint_type=kind, multiplier=multiplier)

            def compute_cmp_state(self, features, labels, sensitive):
                loss, sides = values(w, setting, features, labels, sensitive)
                state = cooper.ConstraintState(violation=sides)
                return cooper.CMPState(loss=loss, observed_constraints={self.sides: state})

        problem = Fair()
        optimizer = cooper.optim.SimultaneousOptimizer(
            cmp=problem,
            primal_optimizers=torch.optim.SGD([w], lr=setting["lr"]),
            dual_optimizers=torch.optim.SGD(problem.dual_parameters(), lr=setting["dual_lr"], maximize=True),
        )

        def step(features, labels, sensitive):
            optimizer.roll(compute_cmp_state_kwargs={"features": features, "labels": labels, "sensitive": sensitive})

        return step


class HumanCompatible(InTorch):
    """humancompatible-train: its (augmented) Lagrangian for the multipliers, SGD for x."""

    def grid(self) -> list[dict[str, Any]]:
        return [setting | {"penalty": penalty} for setting in super().grid() for penalty in (0.0, 1.0)]

    def make(self, w: Any, setting: dict[str, Any]) -> Step:
        from humancompatible.train.dual_optim import ALM  # pyright: ignore[reportMissingImports]

        optimizer = torch.optim.SGD([w], lr=setting["lr"])
        dual = ALM(m=2, lr=setting["dual_lr"], penalty=setting.get("penalty", 0.0), is_ineq=True)

        def step(features, labels, sensitive):
            loss, sides = self.values(w, setting, features, labels, sensitive)
            dual.forward_update(loss, sides).backward()
            optimizer.step()
            optimizer.zero_grad()

        return step
