"""What an audit finds, as plain data: the command line prints it, the report draws it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from calibrant.html_tables import html_table
from calibrant.json_values import json_values
from calibrant.metrics import CalibrationState, Confidences, ConfidenceSketch, RiskPoint
from calibrant.metrics.segmentation_example import Scene
from calibrant.metrics.table import with_former_names

Of: TypeAlias = Literal["top label", "positive class"]


@dataclass(frozen=True)
class Measure:
    """One number with its interval and one plain sentence of what it means.

    >>> print(Measure("ece", "ECE", 0.04321, low=0.03, high=0.06))
    ECE                         0.0432 [0.0300, 0.0600]
    """

    name: str  # as in calibrant.metrics: "ece"
    title: str  # for people: "ECE"
    value: float
    low: float | None = None
    high: float | None = None
    meaning: str = ""

    @property
    def value_text(self) -> str:
        """Return the value, rounded."""
        return _rounded(self.value)

    @property
    def interval_text(self) -> str:
        """Return the interval, rounded; empty without one."""
        if self.low is None or self.high is None:
            return ""
        return f"[{_rounded(self.low)}, {_rounded(self.high)}]"

    def __str__(self) -> str:
        return f"{self.title:<28}{self.value_text} {self.interval_text}".rstrip()


class _WithGap:
    """What has a mean confidence and an accuracy."""

    confidence: float
    accuracy: float

    @property
    def gap(self) -> float:
        """Return confidence − accuracy; positive is overconfident."""
        return self.confidence - self.accuracy


@dataclass(frozen=True)
class ClassRow(_WithGap):
    """How one predicted class fares: its examples, mean confidence, precision.

    >>> from calibrant import Predictions, audit
    >>> labels, names = [1] * 70 + [0] * 30, ["no", "yes"]
    >>> p = Predictions.from_probabilities([0.9] * 100, labels, label_names=names)
    >>> row = audit(p, bootstrap=0).classes[0]
    >>> row.name, row.labelled, row.predicted, row.accuracy, round(row.gap, 2)
    ('yes', 70, 100, 0.7, 0.2)
    """

    name: str
    labelled: int
    predicted: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Finding(_WithGap):
    """A class or group whose claims differ from what is right by more than chance.

    >>> from calibrant import Predictions, audit
    >>> labels, names = [1] * 280 + [0] * 120, ["no", "yes"]
    >>> p = Predictions.from_probabilities([0.9] * 400, labels, label_names=names)
    >>> finding = audit(p, bootstrap=0).findings[0]
    >>> finding.kind, finding.name, finding.where, round(finding.gap, 2), finding.p_value < 0.001
    ('class', 'yes', 'predicted', 0.2, True)
    """

    kind: str  # "class" or "group"
    name: str
    where: str  # Of a class: "predicted", "given", "bin by bin", or a bin; of a group: "" or a bin
    n: int
    confidence: float
    accuracy: float
    p_value: float  # corrected for the number of classes or groups


@dataclass(frozen=True)
class Mistake:
    """A wrong prediction: its row in the file (from 0, ignored rows count), groups, confidence.

    >>> from calibrant import Predictions, audit
    >>> p = Predictions.from_probabilities([0.9, 0.2, 0.6], [1, 1, 0], label_names=["no", "yes"])
    >>> worst = audit(p, bootstrap=0).mistakes[0]
    >>> worst.row, worst.predicted, worst.label, worst.confidence
    (1, 'no', 'yes', 0.8)
    """

    row: int
    confidence: float
    predicted: str
    label: str
    groups: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EntityView:
    """The view of predictions whose labels are BIO tags.

    >>> from calibrant import Predictions, audit
    >>> scores = [[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]
    >>> p = Predictions.from_probabilities(scores, [1, 0, 0], label_names=["O", "B-PER"])
    >>> view = audit(p, bootstrap=0).entities
    >>> view.reduction, [(row.name, row.predicted, row.accuracy) for row in view.types]
    ('product', [('PER', 2, 0.5)])
    """

    measures: tuple[Measure, ...]
    state: CalibrationState  # binned entity confidence against exact span and type
    reduction: str
    types: tuple[ClassRow, ...]
    at_risk: tuple[RiskPoint, ...] = ()  # what can be kept at which risk


@dataclass(frozen=True)
class ImageRow(_WithGap):
    """How the pixels of one image fare, ignored ones not counted.

    >>> import numpy as np
    >>> from calibrant import audit
    >>> from calibrant.metrics import pixel_predictions
    >>> p = pixel_predictions(np.array([[[2.0, 0], [2.0, 0]]]), [[0, 1]], image=7)
    >>> [row] = audit(p, bootstrap=0).pixels.images
    >>> row.name, row.pixels, row.accuracy, round(row.confidence, 2)
    ('7', 2, 0.5, 0.88)
    """

    name: str
    pixels: int
    confidence: float
    accuracy: float
    ece: float


@dataclass(frozen=True)
class RegionRow:
    """How the regions of one class fare: overlap, and the error of its probability.

    >>> import numpy as np
    >>> from calibrant import audit
    >>> from calibrant.metrics import pixel_predictions
    >>> p = pixel_predictions(np.array([[[2.0, 0], [2.0, 0]]]), [[0, 1]], image=7)
    >>> first, second = audit(p, bootstrap=0).pixels.classes
    >>> first.iou, second.iou, round(first.ece, 2)
    (0.5, 0.0, 0.38)
    """

    name: str
    iou: float
    ece: float  # one against the rest


@dataclass(frozen=True, eq=False)
class PixelView:
    """The view of predictions that are the pixels of images.

    >>> import numpy as np
    >>> from calibrant import audit
    >>> from calibrant.metrics import pixel_predictions
    >>> p = pixel_predictions(np.array([[[2.0, 0], [2.0, 0]]]), [[0, 1]], image=7)
    >>> view = audit(p, bootstrap=0).pixels
    >>> [(row.name, row.iou) for row in view.classes]
    [('0', 0.5), ('1', 0.0)]
    """

    measures: tuple[Measure, ...]
    images: tuple[ImageRow, ...]  # worst first
    classes: tuple[RegionRow, ...]  # in the order of their numbers
    scenes: tuple[Scene, ...] = ()  # to be looked at


@dataclass(frozen=True)
class PositiveView:
    """The view of binary predictions: the probability of the positive class.

    >>> from calibrant import Predictions, audit
    >>> p = Predictions.from_probabilities([0.9] * 50 + [0.2] * 50, [1] * 40 + [0] * 60)
    >>> view = audit(p, bootstrap=0).positive
    >>> view.name, int(view.state.n)
    ('1', 100)
    """

    measures: tuple[Measure, ...]
    state: CalibrationState  # binned score against how often the class is the true one
    name: str  # of the positive class
    explanation: str  # how its error and that of the top label differ


@dataclass(frozen=True)
class TopView:
    """The view of multi-label predictions: the most probable label of each example.

    >>> from calibrant import Claims, audit
    >>> scores, labels = [[0.9, 0.3], [0.2, 0.6]] * 50, [[1, 0], [1, 0]] * 50
    >>> claims = Claims.from_multi_label(scores, labels, label_names=["sea", "sky"])
    >>> view = audit(claims, bootstrap=0).top
    >>> {measure.name: round(measure.value, 2) for measure in view.measures}
    {'top_accuracy': 0.5, 'top_confidence': 0.75, 'top_ece': 0.35}
    """

    measures: tuple[Measure, ...]
    state: CalibrationState


@dataclass(frozen=True)
class GroupRow:
    """How one subgroup fares, with intervals, and whether its gap differs from all others'.

    >>> from calibrant import Predictions, audit
    >>> site = ["A"] * 200 + ["B"] * 200
    >>> labels = [1] * 180 + [0] * 20 + [1] * 120 + [0] * 80
    >>> p = Predictions.from_probabilities([0.9] * 400, labels, groups={"site": site})
    >>> for row in audit(p, per="site", bootstrap=200).per[0].rows:
    ...     print(row.name, row.accuracy, round(row.gap, 2), row.differs)
    B 0.6 0.3 True
    A 0.9 0.0 True
    """

    name: str
    n: int
    accuracy: float
    accuracy_low: float | None
    accuracy_high: float | None
    confidence: float
    confidence_low: float | None
    confidence_high: float | None
    ece: float
    ece_low: float | None
    ece_high: float | None
    gap: float  # confidence − accuracy; positive is overconfident
    gap_low: float | None
    gap_high: float | None
    p_value: float  # of "the gap is that of all other examples", corrected for all subgroups
    differs: bool  # beyond chance, at 5 % for all subgroups together


@dataclass(frozen=True)
class GroupTable:
    """The subgroups of one column, the largest gap first.

    Of the positive class of binary predictions, accuracy is the share of positives and confidence
    the mean score.

    >>> from calibrant import Predictions, audit
    >>> site = ["A"] * 200 + ["B"] * 200
    >>> labels = [1] * 180 + [0] * 20 + [1] * 120 + [0] * 80
    >>> p = Predictions.from_probabilities([0.9] * 400, labels, groups={"site": site})
    >>> table = audit(p, per="site", bootstrap=0).per[0]
    >>> table.column, [row.name for row in table.rows]  # The largest gap first.
    ('site', ['B', 'A'])
    """

    column: str
    of: Of
    rows: tuple[GroupRow, ...]


@dataclass(frozen=True)
class Audit:
    """What :func:`audit` found.

    >>> from calibrant import Predictions, audit
    >>> found = audit(Predictions.from_probabilities([0.9] * 100, [1] * 70 + [0] * 30), bootstrap=0)
    >>> found
    <Audit of 100 examples, 2 classes: ECE 0.2000>
    >>> round(found["ece"].value, 2), found["accuracy"].value, found.classes[0].name
    (0.2, 0.7, '1')
    """

    label_names: tuple[str, ...]
    state: CalibrationState
    confidences: Confidences | ConfidenceSketch
    measures: tuple[Measure, ...]
    verdict: tuple[str, ...]  # plain sentences, the most important first
    classes: tuple[ClassRow, ...]  # worst first
    mistakes: tuple[Mistake, ...]  # most confident first
    entities: EntityView | None
    provenance: Mapping[str, Any]  # file names and hashes, n, ignored, bins, edges, dtype, versions
    pixels: PixelView | None = None
    findings: tuple[Finding, ...] = ()  # classes and groups that are off, the surest first
    warnings: tuple[str, ...] = ()  # what makes the intervals doubtful
    at_risk: tuple[RiskPoint, ...] = ()  # what can be kept at which risk, and from which confidence
    positive: PositiveView | None = None  # of binary predictions
    per: tuple[GroupTable, ...] = ()  # of the requested columns
    top: TopView | None = None  # of multi-label predictions

    @property
    def all_measures(self) -> tuple[Measure, ...]:
        """Return the measures of entities and pixels, if any, then those of all examples."""
        known = (self.entities, self.pixels, self.positive, self.top)
        views = (view for view in known if view is not None)
        return (*(measure for view in views for measure in view.measures), *self.measures)

    def __getitem__(self, name: str) -> Measure:
        """Return one measure by its name, such as ``audit["ece"].value``."""
        known = {measure.name: measure for measure in self.all_measures}
        if name not in known:
            raise KeyError(f"{name!r}; known: {', '.join(known)}")
        return known[name]

    def __repr__(self) -> str:
        n, classes = self.provenance["n"], len(self.label_names)
        return f"<Audit of {n:,} examples, {classes} classes: ECE {self['ece'].value:.4f}>"

    def __str__(self) -> str:
        """Return the verdict, then a line for each measure."""
        return "\n".join([*self.verdict, *self.warnings, "", *map(str, self.all_measures)])

    def _repr_html_(self) -> str:
        """Return the verdict and the measures for a notebook."""
        rows = [[m.title, m.value_text, m.interval_text, m.meaning] for m in self.all_measures]
        above = [*self.verdict, *self.warnings]
        return html_table(["metric", "value", "interval", "what it means"], rows, above)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the confidences of single examples, ready for JSON."""
        entities = None
        if self.entities is not None:
            entities = {
                "measures": _measures(self.entities.measures),
                "reduction": self.entities.reduction,
                "types": [asdict(row) for row in self.entities.types],
                "at_risk": [asdict(point) for point in self.entities.at_risk],
                "state": json.loads(self.entities.state.to_json()),
            }
        pixels = None
        if self.pixels is not None:
            pixels = {
                "measures": _measures(self.pixels.measures),
                "images": [asdict(row) for row in self.pixels.images],
                "classes": [asdict(row) for row in self.pixels.classes],
            }
        positive = None
        if self.positive is not None:
            positive = {
                "measures": _measures(self.positive.measures),
                "name": self.positive.name,
                "explanation": self.positive.explanation,
                "state": json.loads(self.positive.state.to_json()),
            }
        content = {
            "measures": _measures(self.measures),
            "verdict": list(self.verdict),
            "warnings": list(self.warnings),
            "findings": [asdict(finding) for finding in self.findings],
            "classes": [asdict(row) for row in self.classes],
            "mistakes": [asdict(row) for row in self.mistakes],
            "at_risk": [asdict(point) for point in self.at_risk],
            "entities": entities,
            "pixels": pixels,
            "positive": positive,
            "top": None if self.top is None else {"measures": _measures(self.top.measures)},
            "per": [asdict(table) for table in self.per],
            "label_names": list(self.label_names),
            "state": json.loads(self.state.to_json()),
            "provenance": dict(self.provenance),
        }
        return dict(json_values(content))


def _rounded(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.4g}"


def _measures(measures: tuple[Measure, ...]) -> dict[str, dict[str, Any]]:
    """Return the measures by name; renamed ones keep their earlier names next to the new ones."""
    by_name = {
        m.name: {key: value for key, value in asdict(m).items() if key not in ("name", "title")}
        for m in measures
    }
    return with_former_names(by_name)
