"""
Completing a matrix of ratings
==============================

For those who have some ratings of a large table and want the others. The observed entries are fitted by a matrix of small
nuclear norm while the energy of all entries that were not observed stays below a bound; it is never held as a whole.
"""

import matplotlib.pyplot as plt
import numpy as np

import tightrope as tr
from tightrope.datasets import structured_matrix

given = structured_matrix(60, 80, rank=4)  # or your ratings: a scipy.sparse matrix, or a dense one with NaN
model = tr.StructuredMatrixCompletion(
    nuclear_norm=given.nuclear_norm, unobserved_energy=given.unobserved_energy, centre=False, steps=60
)
model.fit(given.entries)
print("predicted:", np.round(model.predict([0, 1], [5, 7]), 4))

# %%
# Left what was given (white: not observed), then what the completion says of all entries, and the (known) truth.

U, V = model.factors_
completed, truth = np.asarray(U @ V.T), given.left @ given.right
known = np.full(given.shape, np.nan)
known[given.rows, given.columns] = given.values
error = np.linalg.norm((completed - truth)[np.isnan(known)]) / np.linalg.norm(truth[np.isnan(known)])
print(f"{np.isnan(known).mean():.0%} of the entries were not observed; relative error on them {error:.2f}")

fig, axes = plt.subplots(1, 3, figsize=(8.5, 3), sharey=True, layout="constrained")
for ax, values, name in zip(axes, (known, completed, truth), ("observed", "completed", "truth"), strict=True):
    image = ax.imshow(values, vmin=0, vmax=truth.max(), aspect="auto")
    ax.set(title=name, xlabel="column")
axes[0].set_ylabel("row")
fig.colorbar(image, ax=axes, label="entry")
