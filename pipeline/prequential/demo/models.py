"""The demo's models: classifiers of river, which differ in how they learn."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from prequential.demo.river import river
from prequential.demo.stream import CLASSES, HISTORY, Features, StreamPlan, observations


class DemoModel:
    """One of river's classifiers, with the stream's classes; a static one learns no more."""

    def __init__(self, classifier: Any, *, static: bool = False) -> None:
        self._classifier = classifier
        self._static = static

    def predict(self, x: Features) -> str:
        """The class of an instance."""
        return CLASSES[bool(self._classifier.predict_one(x))]

    def train(self, x: Features, y: str) -> None:
        """Learn from history, as all models did."""
        self._classifier.learn_one(x, y == CLASSES[1])

    @property
    def learns(self) -> bool:
        """Whether it may say something else about an instance when further labels have come."""
        return not self._static

    def learn(self, x: Features, y: str) -> None:
        """Learn from a label of the live stream; static models don't."""
        if self.learns:
            self.train(x, y)


def build_models(plan: StreamPlan) -> Mapping[str, DemoModel]:
    """The models by name, trained on the plan's history. Raises WorkError if river is missing."""
    logistic = river("preprocessing").StandardScaler() | river("linear_model").LogisticRegression()
    models = {
        "static-bayes": DemoModel(river("naive_bayes").GaussianNB(), static=True),
        "logistic": DemoModel(logistic),
        "adaptive-tree": DemoModel(river("tree").HoeffdingAdaptiveTreeClassifier(seed=plan.seed)),
    }
    for x, y in islice(observations(plan), HISTORY):
        for model in models.values():
            model.train(x, y)
    return models
