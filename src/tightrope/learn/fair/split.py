"""Which rows train and which judge on a walk (`walk.py`)."""

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from tightrope.learn.fair.task import Task

JUDGES = ("cross-fit", "holdout")
TRAINING = "training"
"""Rows judge what they have trained; no user can ask for this, and it shows nothing (`by_covariance.py`)."""

HELD_OUT = 0.3  # the share of the rows that judges, with "holdout"; a guess, between accuracy and the width of a bound


class Partition:
    """Parts of the rows that train, and the rows that judge what each of them has trained.

    Attributes:
        keeps: whether the model that is judged is the one handed out.
        trained: the numbers of the rows of each part; the last is that of the model handed out.
        judged: the numbers of the rows that judge, part by part.
    """

    def __init__(self, task: Task, judge: str, folds: int, seed: int):
        assert task.sensitive is not None
        strata = task.sensitive.strata(task.y > 0)  # every part has some of each
        self.keeps = judge != "cross-fit"
        if judge == TRAINING:
            self.trained = self.judged = (np.arange(len(strata)),)
            return
        if self.keeps:
            splitter = StratifiedShuffleSplit(1, test_size=HELD_OUT, random_state=seed)
        else:
            splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
        trained, self.judged = zip(*splitter.split(strata, strata), strict=True)
        self.trained = trained if self.keeps else (*trained, np.arange(len(strata)))

    def views(self, decided: np.ndarray) -> list[np.ndarray]:
        """The decisions of what is handed out, a number for each row: what is best known of them, and other views.

        After cross-fitting, in the mean over a group: the rates of the models of the folds on rows that they have not seen,
        moved by the difference that there is on all rows between the classifier handed out and these models; the rates
        without that; and the classifier's own on the rows it was trained on, which no promise may exceed.

        Args:
            decided: (n, parts), what the model of each part decides about every row.
        """
        final = decided[:, -1].astype(float)
        if self.keeps:
            return [final]
        unseen = np.empty(final.shape)
        for fold, judged in enumerate(self.judged):
            unseen[judged] = decided[judged, fold]
        return [unseen + final - decided[:, :-1].mean(axis=1), unseen, final]
