"""The paper's instance of matrix completion, and who judges an answer."""

from typing import Any

from studies.dense_completion import Dense
from tightrope.datasets import structured_matrix
from tightrope.problems import CompletionProblem, structured_completion

TARGET = 1e-2  # normalised error


class Instance(Dense):
    """A 200 x 300 matrix of rank 10, judged in float64.

    Attributes:
        data: the instance as the library gives it.
        beta: the bound on the energy of what was not observed; with `share` = 0.5 half of the true one's, which binds.
        total: the sum of the squared observed values.
    """

    def __init__(self, seed: int, share: float = 1.0):
        self.data = structured_matrix(seed=seed)
        super().__init__(self.data)
        self.beta, self.total = share * self.data.unobserved_energy, 2 * self.half

    def problem(self, **options: Any) -> CompletionProblem:
        """The problem as tightrope takes it."""
        data = self.data
        return structured_completion(data.entries, self.alpha, self.beta, shape=data.shape, empty="keep", **options)

    def violation(self, X: Any) -> float:
        """The energy over its bound, less one."""
        return self.energy(X) / self.beta - 1
