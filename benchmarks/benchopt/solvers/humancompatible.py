"""humancompatible-train: its (augmented) Lagrangian for the multipliers, SGD for x."""

import torch
from benchmark_utils.torch_loop import InTorch
from humancompatible.train.dual_optim import ALM


class Solver(InTorch):
    """Descent on the augmented Lagrangian."""

    name = "humancompatible-train"
    requirements = ["pip::torch", "pip::humancompatible-train"]
    parameters = InTorch.parameters | {"penalty": [0.0, 1.0]}
    test_config = {"solver": InTorch.test_config["solver"] | {"penalty": 1.0}}

    def make(self, w):
        """A step of its dual optimiser, and one of SGD."""
        optimizer = torch.optim.SGD([w], lr=self.lr)
        dual = ALM(m=2, lr=self.dual_lr, penalty=self.penalty, is_ineq=True)

        def step(X, y, s):
            loss, sides = self.values(w, X, y, s)
            dual.forward_update(loss, sides).backward()
            optimizer.step()
            optimizer.zero_grad()

        return step
