"""
A classifier that keeps the 80 % rule
=====================================

For those who decide about people and must not select one group at less than 80 % of another's rate. The rule is judged on
rows that were not trained on, with 95 % confidence; sex is not needed to decide.

The Adult census table with an indicator for each word (one-hot), 4,000 of its rows to be quick.
"""

import matplotlib.pyplot as plt
import numpy as np

import tightrope as tr
from tightrope.datasets import load_adult, one_hot

table = load_adult().sample(8_000, random_state=0).reset_index(drop=True)
data = one_hot(table)
X, y, sex = data.X, data.y, table["sex"].to_numpy()
train, test = np.arange(4_000), np.arange(4_000, 8_000)

plain = tr.FairLogisticRegression().fit(X[train], y[train])
fair = tr.FairLogisticRegression(p_rule=0.8).fit(X[train], y[train], sensitive_features=sex[train])
print(fair.result_)

# %%
# What each group is given on the other 4,000 rows, without the rule and with it. Both groups are changed: some men are
# no longer selected, and some women are.

names = ["without the rule", "with it"]
decisions = [model.predict(X[test]) for model in (plain, fair)]
fig, ax = plt.subplots(figsize=(6, 3.6))
for shift, group in ((-0.2, "Female"), (0.2, "Male")):
    rates = [(decided > 0)[sex[test] == group].mean() for decided in decisions]
    ax.bar(np.arange(2) + shift, rates, 0.38, label=group)
for place, decided in enumerate(decisions):
    rule = tr.metrics.p_rule(decided, sex[test])
    right = (decided == y[test]).mean()
    ax.text(place, 0.275, f"p%-rule {rule:.2f}, accuracy {right:.3f}", ha="center")
ax.set(xticks=range(2), xticklabels=names, ylabel="share selected", ylim=(0, 0.35))
ax.legend(loc="upper center", ncols=2)
fig.tight_layout()
