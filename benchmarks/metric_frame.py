"""The report on decisions beside fairlearn's MetricFrame: the same rates, ratios and differences, weighted or not.

Run as `python -m benchmarks.metric_frame` in the environment of the peers; raises where a number differs.
"""

import numpy as np
import pandas as pd
from fairlearn.metrics import (  # pyright: ignore[reportMissingImports]
    MetricFrame,
    false_positive_rate,
    selection_rate,
    true_positive_rate,
)
from sklearn.metrics import accuracy_score

import tightrope as tr

METRICS = {
    "selection_rate": selection_rate,
    "accuracy": accuracy_score,
    "true_positive_rate": true_positive_rate,
    "false_positive_rate": false_positive_rate,
}


def compare(n: int = 3000, seed: int = 0) -> int:
    """How many numbers were compared, all of them equal."""
    rng = np.random.default_rng(seed)
    people = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "race": rng.choice(list("ABC"), n, p=[0.7, 0.27, 0.03])})
    truth = rng.random(n) < 0.4
    decided = (rng.random(n) < 0.3) | (truth & (people["sex"] == "M").to_numpy())
    compared = 0
    for weight in (None, rng.uniform(0, 3, n)):
        report = tr.fairness_report(decided, people, truth, sample_weight=weight)
        for columns in (["sex"], ["race"], ["sex", "race"]):
            name = " & ".join(columns)
            given = None if weight is None else {metric: {"sample_weight": weight} for metric in METRICS}
            theirs = MetricFrame(
                metrics=METRICS, y_true=truth, y_pred=decided, sensitive_features=people[columns], sample_params=given
            )
            ours, summary = report.by_group(name), report.summary().query("attribute == @name").set_index("metric")
            np.testing.assert_allclose(ours, theirs.by_group.loc[ours.index, ours.columns].astype(float))
            np.testing.assert_allclose(summary["ratio"], theirs.ratio()[summary.index].astype(float))
            np.testing.assert_allclose(summary["difference"], theirs.difference()[summary.index].astype(float))
            compared += ours.size + 2 * len(summary)
    return compared


if __name__ == "__main__":
    print(f"{compare()} rates, ratios and differences are those of fairlearn's MetricFrame.")
