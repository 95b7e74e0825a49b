"""The loop of the solvers on PyTorch: mini-batches, a step for each, the mean of the iterates."""

import torch
from benchopt import BaseSolver


class InTorch(BaseSolver):
    """Descent on x and ascent on the multipliers; a library says in `make` how a step is taken.

    Learning rates are parameters: benchopt runs every combination, so that each library is seen at its best.
    """

    sampling_strategy = "callback"
    requirements = ["pip::torch"]
    parameters = {"lr": [0.3, 0.1], "dual_lr": [0.3], "batch": [64]}
    test_config = {"solver": {"lr": 0.1, "dual_lr": 0.3, "batch": 64}}

    def set_objective(self, X, y, s, c, radius):
        """Rows as tensors."""
        self.X, self.y, self.s = (torch.tensor(a, dtype=torch.float32) for a in (X, y, s - s.mean()))
        self.c, self.radius = c, radius

    def make(self, w):
        """A function of a mini-batch that takes one step on w."""
        raise NotImplementedError

    def values(self, w, X, y, s):
        """The loss and both sides of the constraint on a mini-batch."""
        scores = X @ w
        q = torch.mean(s * scores)
        return torch.nn.functional.softplus(-y * scores).mean(), torch.stack([q - self.c, -q - self.c])

    def run(self, cb):
        """A pass between two looks."""
        torch.set_num_threads(1)
        generator = torch.Generator().manual_seed(0)
        w = torch.nn.Parameter(torch.zeros(self.X.shape[1]))
        step, self.total, steps = self.make(w), torch.zeros(self.X.shape[1], dtype=torch.float64), 0
        self.x = self.total.numpy()
        while cb():
            for rows in torch.randperm(len(self.y), generator=generator).split(self.batch):
                step(self.X[rows], self.y[rows], self.s[rows])
                with torch.no_grad():
                    w.mul_(min(1.0, self.radius / (float(w.norm()) + 1e-12)))
                self.total += w.detach()
                steps += 1
            self.x = self.total.numpy() / steps

    def get_result(self):
        """The mean of the iterates."""
        return {"x": self.x}
