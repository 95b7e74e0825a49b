"""Two Gaussians and a sensitive attribute that goes with the label, as in the appendix of the paper."""

from benchopt import BaseDataset

from tightrope.datasets import rotated_gaussians


class Dataset(BaseDataset):
    """The paper's synthetic data; a smaller phi is more correlation."""

    name = "Simulated"
    parameters = {"n": [4000], "phi": [0.785], "seed": [0]}
    test_parameters = {"n": [400]}
    requirements = ["pip::tightrope"]

    def get_data(self):
        """Features with a constant, labels, the attribute."""
        X, y, s, _ = rotated_gaussians(n=self.n, phi=self.phi, seed=self.seed)
        return {"X": X, "y": y, "s": s}
