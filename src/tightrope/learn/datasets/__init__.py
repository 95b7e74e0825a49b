"""Data for the examples and studies, inside the package: nothing is downloaded.

`load_adult` is the table as published; `label_encoded` and `one_hot` make numbers of it; `split` is the seeded split of
the fairness experiments; `adult_label_encoded` is all of that in one call. `rotated_gaussians` is their synthetic data.
`structured_matrix` is the partly observed matrix of the completion experiments, of any size.
"""

from tightrope.learn.datasets.adult import COLUMNS, load_adult
from tightrope.learn.datasets.features import LABEL_ENCODED, Features, label_encoded, merge_rare, one_hot
from tightrope.learn.datasets.splits import Split, adult_label_encoded, split
from tightrope.learn.datasets.structured import StructuredMatrix, structured_matrix
from tightrope.learn.datasets.synthetic import GroupedGaussians, rotated_gaussians

__all__ = [
    "COLUMNS",
    "LABEL_ENCODED",
    "Features",
    "GroupedGaussians",
    "Split",
    "StructuredMatrix",
    "adult_label_encoded",
    "label_encoded",
    "load_adult",
    "merge_rare",
    "one_hot",
    "rotated_gaussians",
    "split",
    "structured_matrix",
]
