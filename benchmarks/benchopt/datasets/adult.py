"""Adult, label-encoded, with the rows that the paper trains on."""

from benchopt import BaseDataset

from tightrope.datasets import label_encoded, load_adult, split


class Dataset(BaseDataset):
    """28,350 people, 13 features and a constant; sensitive: sex."""

    name = "Adult"
    requirements = ["pip::tightrope"]

    def get_data(self):
        """Features with a constant, labels, the attribute."""
        frame = load_adult()
        train = split(len(frame)).train
        X, y, s = label_encoded(frame, fit_on=train)[:3]
        return {"X": X[train], "y": y[train], "s": s[train]}
