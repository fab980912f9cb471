"""The demo's models: classifiers of river, which differ in how they learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.demo.river import river
from pipeline.demo.stream import CLASSES, Features

#: Labels that the static model is trained on, the first ones (about seven seconds of them); it is
#: then left alone, as models are that somebody trained once.
TRAINING_LABELS = 1_500


class Model:
    """One of river's classifiers, with the stream's classes.

    `labels` is how many it learns from, None for all.
    """

    def __init__(self, classifier: Any, labels: int | None = None) -> None:
        self._classifier = classifier
        self._left = labels

    def predict(self, x: Features) -> str:
        """The class of an instance; before the first label, the first class."""
        return CLASSES[bool(self._classifier.predict_one(x))]

    def learn(self, x: Features, y: str) -> None:
        """Learn from a label, unless the training is over."""
        if self._left == 0:
            return
        if self._left is not None:
            self._left -= 1
        self._classifier.learn_one(x, y == CLASSES[1])


def build_models(seed: int) -> Mapping[str, Model]:
    """The models by name. Raises WorkError if river is missing."""
    logistic = river("preprocessing").StandardScaler() | river("linear_model").LogisticRegression()
    return {
        "static-bayes": Model(river("naive_bayes").GaussianNB(), TRAINING_LABELS),
        "logistic": Model(logistic),
        "adaptive-tree": Model(river("tree").HoeffdingAdaptiveTreeClassifier(seed=seed)),
    }
