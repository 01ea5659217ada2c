"""Find claims that differ from what happened by more than chance: the tests behind the verdict.

A claim is a set of examples with the sum of their probabilities and the number that came true:
all predictions of one class, or the examples whose probability of a class lies in one bin. Were
every probability honest, that number would be a sum of independent 0s and 1s, whose tails are at
most those of a binomial with the same mean. Zubkov & Serov (2013) bound these by the normal
distribution of the signed root of twice the deviance, n · KL(right / n ‖ claimed / n).

Where examples depend on each other (tokens of a sentence), n is divided by the design effect, the
variance over groups in units of the binomial one, and the tails are those of Student's t with one
degree of freedom less than there are groups of one size with as much information (Korn & Graubard
1998): of a hundred groups, or weights, three may decide. A claim of few events shows no
such variance, so its design effect is at least that of all claims of its kind together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from calibrant.auditing.record import Finding
from calibrant.distributions import holm, student_p
from calibrant.metrics import CalibrationState
from calibrant.metrics.blocks import effective_number

__all__ = [
    "MATERIAL", "ClaimSums", "Question", "class_findings", "findings_of", "material", "p_values",
    "whole_p_value",
]  # fmt: skip

# A gap between what is claimed and what is right below this is too small to be reported.
MATERIAL = 0.005
_OF_A_RARE_CLASS = 0.1  # Of its share: where 1 % are ill, expecting 1.4 % is no small error.
_SURE = 0.05  # No larger p-value is ever reported, so it need not be exact.


class ClaimSums(NamedTuple):
    """Sums over the examples of each claim, and how far these depend on each other."""

    n: np.ndarray
    claimed: np.ndarray
    right: np.ndarray
    design: np.ndarray | None = None  # variance over groups in units of the binomial one
    groups: np.ndarray | None = None  # effective number; None: every example is its own group

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> ClaimSums:
        """Return the claims with every array changed in the same way."""
        n, claimed, right = (change(sums) for sums in self[:3])
        if self.design is None or self.groups is None:
            return ClaimSums(n, claimed, right)
        return ClaimSums(n, claimed, right, change(self.design), change(self.groups))

    @classmethod
    def blocked(cls, n: np.ndarray, claimed: np.ndarray, right: np.ndarray) -> ClaimSums:
        """Make claims from sums with a leading axis of blocks that hold whole groups."""
        total, used = n.sum(axis=0), effective_number(n)
        # About 0, as if all were honest: about their mean, three groups that agree have no spread.
        variance = np.square(right - claimed).sum(axis=0)
        share = np.divide(claimed.sum(axis=0), total, out=np.zeros(total.shape), where=total > 0)
        design = _ratio(variance, total * share * (1 - share))
        design = np.maximum(design, _ratio(variance.sum(), (total * share * (1 - share)).sum()))
        return cls(total, claimed.sum(axis=0), right.sum(axis=0), design, used)

    @classmethod
    def together(cls, parts: Sequence[ClaimSums]) -> ClaimSums:
        """Join claims of several kinds, one after the other."""
        columns = ([a for a in c if a is not None] for c in zip(*parts, strict=True))
        return cls(*(np.concatenate(column, axis=-1) for column in columns if column))


def material(share: float) -> float:
    """Return the least gap to report of two classes, of which one has this share of the examples.

    >>> material(0.4), round(material(0.99), 4)
    (0.005, 0.001)
    """
    return min(MATERIAL, _OF_A_RARE_CLASS * min(share, 1 - share))


def p_values(claims: ClaimSums) -> np.ndarray:
    """Return the two-sided p-value of each claim; 1 where there is nothing to judge by.

    >>> p_values(ClaimSums(np.array([100]), np.array([75.0]), np.array([65])))
    array([0.044...])
    """
    n, claimed, right = (np.asarray(a, np.float64) for a in claims[:3])
    share = np.divide(claimed, n, out=np.zeros_like(claimed), where=n > 0)
    share = np.clip(share, 1e-12, 1 - 1e-12)
    size = n if claims.design is None else n / claims.design
    found = np.divide(right, n, out=np.zeros_like(right), where=n > 0)
    step = np.divide(1.0, size, out=np.ones_like(size), where=size > 0)
    # The bounds of Zubkov & Serov are one success away from what was seen.
    nearer = np.where(found > share, found - step, found + step)
    beyond = (nearer - share) * (found - share) > 0
    root = np.where(beyond, np.sqrt(2 * size * _divergence(np.clip(nearer, 0, 1), share)), 0.0)
    return _two_sided(root, claims.groups)


def _ratio(variance: np.ndarray, binomial: np.ndarray) -> np.ndarray:
    """Return the design effect, at least 1: that of independent examples."""
    known = np.divide(variance, binomial, out=np.ones(np.shape(variance)), where=binomial > 0)
    return np.asarray(np.maximum(known, 1.0))


def _divergence(seen: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the KL divergence of two Bernoulli shares, with 0 · log 0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(seen > 0, seen * np.log(seen / share), 0.0)
        second = np.where(seen < 1, (1 - seen) * np.log((1 - seen) / (1 - share)), 0.0)
    return np.asarray(np.maximum(first + second, 0.0))


def _two_sided(root: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    values = np.array([math.erfc(z / math.sqrt(2)) for z in root.ravel()]).reshape(root.shape)
    if groups is None:
        return values
    for cell in zip(*np.nonzero(values < _SURE), strict=True):
        freedom = float(groups[cell]) - 1
        values[cell] = student_p(float(root[cell]), freedom) if freedom > 0 else 1.0
    return values


@dataclass(frozen=True)
class Question:
    """All claims about one class or group; the most doubtful claim decides about it."""

    name: str
    claims: ClaimSums
    where: Callable[[int], str]  # What a claim is about, by its place


def findings_of(
    kind: str, questions: Iterable[Question], level: float, least: float = MATERIAL
) -> tuple[Finding, ...]:
    """Return what is off by more than chance, the most certain first; all are tested together.

    Gaps below ``least`` are left out.
    """
    open_questions = [question for question in questions if question.claims.n.any()]
    best = []
    for question in open_questions:
        values = np.where(question.claims.n > 0, p_values(question.claims), 1.0)
        values = np.minimum(1.0, values * (question.claims.n > 0).sum())
        # The first claim is the plainest, so it decides alone where it is certain enough.
        place = 0 if values[0] <= level / len(open_questions) else int(values.argmin())
        best.append((question, place, float(values.min())))
    corrected = holm([p for *_, p in best])
    found = [
        _finding(kind, question, place, p)
        for (question, place, _), p in zip(best, corrected, strict=True)
        if p <= level
    ]
    return tuple(sorted((f for f in found if abs(f.gap) >= least), key=lambda f: f.p_value))


def _finding(kind: str, question: Question, place: int, p: float) -> Finding:
    n, claimed, right = (float(sums[place]) for sums in question.claims[:3])
    where = question.where(place)
    return Finding(kind, question.name, where, round(float(n)), claimed / n, right / n, p)


def whole_p_value(state: CalibrationState, *, grouped: bool, least: float = MATERIAL) -> float:
    """Return the p-value of all predictions together; 1 where they are off by too little.

    It finds what is off in one direction with fewer examples than the ECE, which adds up the noise
    of every bin. ``grouped``: the state has a leading axis of blocks.
    """
    confidence, correct = state.top_confidence.sum(axis=-1), state.top_correct.sum(axis=-1)
    sums = [np.asarray(s, np.float64)[..., None] for s in (state.n, confidence, correct)]
    claims = ClaimSums.blocked(*sums) if grouped else ClaimSums(*sums)
    gap = (claims.claimed - claims.right) / claims.n
    return float(p_values(claims)[0]) if abs(gap[0]) >= least else 1.0


def class_findings(
    state: CalibrationState,
    names: Sequence[str],
    *,
    blocked: CalibrationState | None = None,
    level: float,
    least: float = MATERIAL,
) -> tuple[Finding, ...]:
    """Test each class: its predictions together, and its probability in each bin and as a whole.

    ``blocked`` is the same state with a leading axis of blocks, where examples are grouped; where
    it has no tables of classes (there are too many), only predictions are tested. With two classes,
    the probability of the second determines that of the first, so only the second is tested.
    """
    state = state if blocked is None else blocked
    grouped = blocked is not None
    kinds = [_claims(state, "predicted", grouped)]
    if state.classwise:
        kinds += [_claims(state, "class", grouped, whole) for whole in (True, False)]
    claims, edges = ClaimSums.together(kinds), state.bins.edges()
    questions = []
    for k, name in enumerate(names):
        bins = slice(1) if state.classes == 2 and k == 0 else slice(None)
        mine = claims.map(itemgetter((k, bins)))
        questions.append(Question(name, mine, lambda place: _place(place, edges)))
    return findings_of("class", questions, level, least)


def _claims(state: CalibrationState, table: str, grouped: bool, whole: bool = True) -> ClaimSums:
    """Return (classes, 1) or (classes, bins) claims from a table of a state."""
    sums = [getattr(state, f"{table}_{part}") for part in ("count", "confidence", "correct")]
    if table == "predicted":
        sums = [table[..., None] for table in sums]
    elif whole:
        sums = [table.sum(axis=-1, keepdims=True) for table in sums]
    if grouped:
        return ClaimSums.blocked(*sums)
    return ClaimSums(*sums)


def _place(place: int, edges: np.ndarray) -> str:
    if place < 2:
        return ("predicted", "given")[place]
    low, high = 100 * edges[place - 2], 100 * edges[place - 1]
    return f"given {low:.3g} to {high:.3g} %"
