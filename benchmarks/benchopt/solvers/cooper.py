"""Cooper: a Lagrangian formulation, simultaneous updates, SGD for both."""

import cooper
import torch
from benchmark_utils.torch_loop import InTorch


class Solver(InTorch):
    """Gradient descent on x and ascent on the multipliers at the same time."""

    name = "Cooper"
    requirements = ["pip::torch", "pip::cooper-optim"]

    def make(self, w):
        """A step of Cooper's optimiser."""
        values = self.values

        class Fair(cooper.ConstrainedMinimizationProblem):
            def __init__(self):
                super().__init__()
                multiplier = cooper.multipliers.DenseMultiplier(num_constraints=2)
                kind = cooper.ConstraintType.INEQUALITY
                self.sides = cooper.Constraint(constraint_type=kind, multiplier=multiplier)

            def compute_cmp_state(self, X, y, s):
                loss, sides = values(w, X, y, s)
                state = cooper.ConstraintState(violation=sides)
                return cooper.CMPState(loss=loss, observed_constraints={self.sides: state})

        problem = Fair()
        optimizer = cooper.optim.SimultaneousOptimizer(
            cmp=problem,
            primal_optimizers=torch.optim.SGD([w], lr=self.lr),
            dual_optimizers=torch.optim.SGD(problem.dual_parameters(), lr=self.dual_lr, maximize=True),
        )
        return lambda X, y, s: optimizer.roll(compute_cmp_state_kwargs={"X": X, "y": y, "s": s})
