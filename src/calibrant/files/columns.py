"""Find the columns of a file that hold the scores, the labels and the groups."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from calibrant.errors import InputError, nearest_name
from calibrant.files.format import SIGNAL, WEIGHT, FileKind, Layout, Source
from calibrant.files.lines import TextSource
from calibrant.inputs import shortened
from calibrant.labels import positive_names
from calibrant.predictions import Kind

__all__ = [
    "DEFAULT_COLUMNS",
    "LABEL_NAMES",
    "READ_NAMES",
    "SCORE_NAMES",
    "WEIGHT_NAMES",
    "Columns",
    "find_label",
    "find_layout",
    "signal_name",
]

# Names that say what the scores are. calibrant writes the first.
_SCORES: Mapping[Kind, tuple[str, ...]] = {
    "logits": ("logits", "logit"),
    "probabilities": ("probabilities", "probability", "probs", "prob"),
}
_LABEL = ("label", "labels")
# Names that other tools use, if the file has none of ours. A name says what the scores are, never a
# value; "predictions" are probabilities only as a list, since one number may be a class.
_OTHER_SCORES: Mapping[Kind, tuple[str, ...]] = {
    "logits": ("y_logits", "raw_logits"),
    "probabilities": ("y_prob", "y_probs", "y_proba", "proba", "predict_proba", "softmax"),
}
_CONFIDENCE: tuple[str, ...] = (
    "confidence",
    "confidences",
    "conf",
    "score",
    "top_probability",
    "max_probability",
)
_CONFIDENCE += ("max_prob", "top_prob", "top_score")
_PREDICTED: tuple[str, ...] = (
    "predicted",
    "prediction",
    "pred_label",
    "predicted_label",
    "pred",
    "y_pred",
)
_PREDICTED += ("predicted_class", "pred_class", "predicted_labels", "pred_labels", "predictions")
_CORRECT = ("correct", "is_correct", "right", "hit")
WEIGHT_NAMES = (WEIGHT, "weights", "sample_weight", "sample_weights")
_LISTS = ("predictions", "y_pred_proba")
_OTHER_LABEL = (
    *("y_true", "ground_truth", "true_label", "true_labels", "target", "targets"),
    *("gold", "gold_label", "truth", "y"),
)
# Names of columns that are hardly classes; pandas writes its index under the empty one.
_NO_CLASSES = ("", "unnamed: 0", "index", "id", "text", "title", "sentence", "document")
_ONE_CONFIDENCE = (
    "; for predicted labels with one confidence each, --confidence-column and --predicted-column"
)
LABEL_NAMES = (*_LABEL, *_OTHER_LABEL)
SCORE_NAMES = (
    *(name for names in (_SCORES, _OTHER_SCORES) for kind in names for name in names[kind]),
    *_LISTS,
    "scores",
)
# Names of columns that are never groups by themselves.
READ_NAMES = frozenset((*SCORE_NAMES, *LABEL_NAMES, *_CONFIDENCE, *_PREDICTED, *_CORRECT))


@dataclass(frozen=True)
class Columns:
    """Column names, where a file does not use the usual ones.

    ``logits`` and ``probabilities`` take the name of a list column, the names of one column per
    class, or a prefix such as ``"p_*"``; naming one of them also says what the scores are. By
    default the columns are ``logits`` or ``probabilities`` (a list, ``logits:NAME``, or
    ``logits_0``, ``logits_1``, …). ``groups`` names the other columns to keep, by default every
    scalar one. ``label_names`` gives the names where the file has none. ``signals`` names the
    columns of signals, by default every ``signal.NAME``. ``confidence``, ``predicted`` and
    ``correct`` are the columns of top labels, where the scores of all classes are not known.
    ``positive`` is the label of class 1 of two, where labels are text and there is one score.
    ``weights`` is the column of sample weights, by default ``weight`` or ``sample_weight`` where
    there is one; "" reads none.

    >>> Columns(probabilities="p_*", label="gold", groups=("sentence",)).label
    'gold'
    """

    logits: str | Sequence[str] | None = None
    probabilities: str | Sequence[str] | None = None
    label: str | None = None
    groups: Sequence[str] | None = None
    label_names: Sequence[str] | None = None
    signals: Sequence[str] | None = None
    predicted: str | None = None
    confidence: str | None = None
    correct: str | None = None
    positive: str | None = None
    weights: str | None = None


DEFAULT_COLUMNS = Columns()


def find_layout(
    source: Source, columns: Columns, kind: FileKind | None, *, labelled: bool = True
) -> Layout:
    """Return the columns of ``source`` that ``columns`` or the default names give.

    Without ``labelled``, top labels need neither a true label nor ``correct``.
    """
    if not source.columns:
        raise InputError(f"{source.path}: no rows; the file is empty.")
    if kind == "multi-label":
        return _multi_label_layout(source, columns, labelled)
    if (confidence := _find_confidence(source, columns, kind)) is not None:
        return _top_label_layout(source, columns, confidence, labelled)
    stated: Kind | None = kind if kind in ("logits", "probabilities") else None
    found, scores = _find_scores(source, columns, stated)
    label = _find_label(source, columns)
    signals = _find_signals(source, columns)
    weights = _find_weights(source, columns, label)
    groups = _find_groups(source, columns, label, {*scores.columns, label, *signals, weights})
    names = scores.names or source.label_names(scores.columns[0])
    # Keys of an object in jsonl name classes as columns do; a list of names only describes them.
    named = scores.names is not None or (names is not None and isinstance(source, TextSource))
    if columns.label_names is not None:
        names, named = _given_names(source, columns.label_names, names), False
    if columns.positive is not None:
        _check_positive(source, columns.positive, names)
        names, named = positive_names(columns.positive), True
    layout = Layout(found, scores.columns, label, groups, names, scores.per_class, signals)
    return replace(layout, weights=weights, named=named)


def _given_names(
    source: Source, given: Sequence[str], own: tuple[str, ...] | None
) -> tuple[str, ...]:
    """Return label names that were given; they may rename those of the file, but not swap them."""
    names = tuple(str(name) for name in given)
    places = {name: place for place, name in enumerate(own or ())}
    for place, name in enumerate(names):
        if (other := places.get(name, place)) != place:
            raise InputError(
                f"{source.path}: the label names have '{shortened(name)}' as class {place}, but in "
                f"the file it is class {other}; put the names in the order of the file "
                f"({_listed(list(own or ()))}), or give none."
            )
    return names


def _check_positive(source: Source, positive: str, own: tuple[str, ...] | None) -> None:
    """Refuse a positive class that the file calls class 0: its score would be that of class 1."""
    if own is not None and own[:1] == (positive,):
        raise InputError(
            f"{source.path}: --positive {positive} is for one score per row, that of the positive "
            f"class, but the file has a score for each of {_listed(list(own))}; leave it out."
        )


def _find_confidence(source: Source, columns: Columns, kind: FileKind | None) -> str | None:
    """Return the column of the predicted label's confidence, if the file is one of top labels.

    It is one if ``kind`` or a named column says so, or if there is no column of scores.
    """
    if columns.confidence is not None:
        _require(source, columns.confidence)
        return columns.confidence
    named = columns.logits is not None or columns.probabilities is not None
    stated = kind == "top-label" or columns.predicted is not None or columns.correct is not None
    if not stated and (kind is not None or named):
        return None
    probabilities = (*_SCORES["probabilities"], *_OTHER_SCORES["probabilities"])
    usual = _CONFIDENCE + (probabilities if stated else ())
    confidence = _first(source, usual)
    if stated and confidence is None:
        raise InputError(
            f"{source.path}: no column 'confidence' or 'score'; {_seen(source)}. Name it "
            "(--confidence-column)."
        )
    if stated:
        return confidence
    kinds = list(_SCORES)
    scores = _present(source, kinds, _SCORES) or _present(source, kinds, _OTHER_SCORES)
    predicted = _first(source, _PREDICTED)
    for found in scores.values():
        if predicted and not found.per_class and source.columns[found.columns[0]] == ():
            raise InputError(
                f"{source.path}: '{found.columns[0]}' may belong to class 1, or to the label in "
                f"'{predicted}'; say which (--kind probabilities, or --kind top-label)."
            )
    return None if scores else confidence


def _multi_label_layout(source: Source, columns: Columns, labelled: bool) -> Layout:
    """Return the columns of K probabilities, and of K labels: one list, or ``label:NAME`` each."""
    kind, scores = _find_scores(source, columns, None)
    each = _prefixed(source, "label:") or _prefixed(source, "labels:")
    found: tuple[str, ...] = ()
    if not labelled:
        label = scores.columns[0]
    elif columns.label is None and each is not None:
        label, found = each.columns[0], each.columns
    else:
        label = _find_label(source, columns)
        if not source.columns[label]:
            raise InputError(
                f"{source.path}: '{label}' must hold a list of 0 and 1 in each row, one per label, "
                "or there is a column label:NAME for each."
            )
    signals = _find_signals(source, columns)
    weights = _find_weights(source, columns, None)
    taken = {*scores.columns, label, *found, *signals, weights}
    groups = _find_groups(source, columns, label, taken) if labelled else ()
    names = scores.names or source.label_names(scores.columns[0])
    if columns.label_names is not None:
        names = _given_names(source, columns.label_names, names)
    if found and each is not None and each.names != names:
        raise InputError(
            f"{source.path}: the columns of labels and of {kind} must have the same names in the "
            f"same order, got {_listed(list(each.names or ()))} and {_listed(list(names or ()))}."
        )
    read = tuple(dict.fromkeys((*groups, *(name for name in found if name != label))))
    layout = Layout("multi-label", scores.columns, label, read, names, scores.per_class, signals)
    return replace(layout, labels=found, of_logits=kind == "logits", weights=weights)


def _top_label_layout(source: Source, columns: Columns, confidence: str, labelled: bool) -> Layout:
    for name in (columns.label, columns.predicted, columns.correct):
        if name is not None:
            _require(source, name)
    if not labelled:
        predicted = columns.predicted or _first(source, (*_PREDICTED, *_LABEL))
        return _of_top_labels(source, columns, confidence, confidence, predicted, None)
    predicted = columns.predicted or _first(source, _PREDICTED)
    truth = columns.label or (predicted and _first(source, _LABEL, but=predicted))
    truth = truth or _first(source, _OTHER_LABEL)
    if predicted is None and truth is not None:  # A pipeline calls its prediction "label".
        predicted = _first(source, _LABEL, but=truth)
    truth = truth or _first(source, _LABEL, but=predicted)
    correct = columns.correct or _first(source, _CORRECT)
    if correct is None and (truth is None or predicted is None):
        if columns.positive is not None:
            raise _unknown_score(source, confidence, columns.positive)
        raise _no_labels(source, confidence, truth, predicted)
    label = truth if truth is not None and predicted is not None else correct or confidence
    return _of_top_labels(source, columns, confidence, label, predicted, correct)


def _no_labels(
    source: Source, confidence: str, truth: str | None, predicted: str | None
) -> InputError:
    """Return the error that names all columns which are missing."""
    kinds = {"predicted": ("predicted", predicted), "label": ("true", truth)}
    missing = {option: kind for option, (kind, name) in kinds.items() if name is None}
    options = " and ".join(f"--{option}-column" for option in missing)
    one = len(missing) == 1
    of_one_class = (
        f" If '{confidence}' is the probability of one class, --probabilities-column {confidence}."
        if predicted is None and truth is not None
        else ""
    )
    return InputError(
        f"{source.path}: no column{'' if one else 's'} of {' and '.join(missing.values())} labels "
        f"for '{confidence}'; {_seen(source)}. Name {'it' if one else 'them'} ({options}), or a "
        f"column that says which predictions are right (--correct-column).{of_one_class}"
    )


def _unknown_score(source: Source, score: str, positive: str) -> InputError:
    """Return the error for a score of the positive class whose name does not say what it is."""
    return InputError(
        f"{source.path}: '{score}' does not say if it is the probability of '{positive}' "
        f"(--probabilities-column {score}) or its log-odds (--logits-column {score}); "
        f"{_seen(source)}."
    )


def _of_top_labels(
    source: Source,
    columns: Columns,
    confidence: str,
    label: str,
    predicted: str | None,
    correct: str | None,
) -> Layout:
    own = tuple(name for name in (predicted, correct) if name is not None)
    signals = _find_signals(source, columns)
    weights = _find_weights(source, columns, label)
    groups = _find_groups(source, columns, label, {confidence, label, *own, *signals, weights})
    groups += tuple(name for name in own if name != label)
    beside = (signals, predicted, correct)
    names = columns.label_names  # They say which texts are classes, not in which order.
    names = None if names is None else tuple(map(str, names))
    layout = Layout("top-label", (confidence,), label, groups, names, False, *beside)
    return replace(layout, weights=weights)


def _first(source: Source, names: Sequence[str], but: str | None = None) -> str | None:
    """Return the first of the names that is a column of single values."""
    found = _in_any_case(source, names)
    return next((n for n in found if n != but and source.columns[n] == ()), None)


def _in_any_case(source: Source, names: Sequence[str]) -> list[str]:
    """Return the columns with these names, in the order of the names.

    Spreadsheets write ``Label`` and ``Confidence``: the case counts where a column has it.
    """
    exact = [name for name in names if name in source.columns]
    cases: dict[str, str] = {}
    for column in source.columns:
        cases.setdefault(column.lower(), column)
    others = [cases[name] for name in names if name in cases]
    return list(dict.fromkeys([*exact, *others]))


class _Scores(NamedTuple):
    columns: tuple[str, ...]
    names: tuple[str, ...] | None = None
    per_class: bool = False


def _find_scores(source: Source, columns: Columns, kind: Kind | None) -> tuple[Kind, _Scores]:
    wanted: dict[Kind, str | Sequence[str] | None] = {
        "logits": columns.logits,
        "probabilities": columns.probabilities,
    }
    named = [k for k in wanted if wanted[k] is not None]
    if len(named) == 2:
        raise InputError("Name the columns of the logits or of the probabilities, not of both.")
    if named and kind not in (None, named[0]):
        raise InputError(f"Columns of {named[0]} were named, but kind is '{kind}'.")
    if named:
        return named[0], _named(source, wanted[named[0]])
    kinds = [k for k in _SCORES if kind in (None, k)]
    present = _present(source, kinds, _SCORES) or _present(source, kinds, _OTHER_SCORES)
    if not present and kind != "logits":
        lists = [name for name in _LISTS if source.columns.get(name, ())]
        present = {"probabilities": _Scores((lists[0],))} if lists else {}
    if len(present) == 2:
        raise InputError(
            f"{source.path}: has both logits and probabilities; say which to use "
            "(kind='logits', or --kind logits)."
        )
    if not present:
        if "entities" in source.columns or "ents" in source.columns:
            raise InputError(
                f"{source.path}: it holds entities, not scores of classes; give it with the true "
                "ones (--entities PREDICTED GOLD: audit and fit)."
            )
        if _has_data_for_names(source):
            raise InputError(
                f"{source.path}: the first line has numbers, not names: {_seen(source)}. Put a "
                "line above it that names the columns, such as label,probabilities_0,…"
            )
        options = " or ".join(f"--{k}-column" for k in kinds)
        one_confidence = _ONE_CONFIDENCE if len(kinds) > 1 else ""  # Unless the user stated a kind.
        one_confidence = _class_columns(source, kinds[-1]) or one_confidence
        no_labels = find_label(source, columns) is None
        raise InputError(
            f"{source.path}: no column of {' or '.join(kinds)}; {_seen(source)}. "
            f"Name it ({options}{_shared_prefix(source, kinds) or one_confidence})"
            f"{', and the true labels, if it has them (--label-column)' if no_labels else ''}."
        )
    return next(iter(present.items()))


def _has_data_for_names(source: Source) -> bool:
    """Return whether every name is a number, and not all are those that pandas counts."""
    try:
        return any(not float(name).is_integer() for name in source.columns)
    except ValueError:
        return False


def _shared_prefix(source: Source, kinds: Sequence[Kind]) -> str:
    """Return how to name columns that begin alike, such as prob_cat and prob_dog."""
    scalar = (name for name, shape in source.columns.items() if shape == ())
    names = [name for name in scalar if not name.startswith(SIGNAL)]
    starts = Counter(found[0] for name in names if (found := re.match(r".*?[_:.\-](?=.)", name)))
    if not starts or starts.most_common(1)[0][1] < 2:
        return ""
    start = starts.most_common(1)[0][0]
    kind = kinds[0] if "logit" in start.lower() else kinds[-1]
    return f"; for one column per class, --{kind}-column '{start}*'"


def _class_columns(source: Source, kind: Kind) -> str:
    """Return how to name a few columns beside the label, which may be those of the classes."""
    names = [name for name, shape in source.columns.items() if shape == ()]
    others = [name for name in names if name.lower() not in (*LABEL_NAMES, *_NO_CLASSES)]
    labelled = _first(source, LABEL_NAMES) is not None
    if not labelled or not 2 <= len(others) <= 6 or _first(source, _PREDICTED):
        return ""  # A predicted label is no class.
    return f"; if these are the classes, --{kind}-column {shlex.quote(','.join(others))}"


def _present(
    source: Source, kinds: Sequence[Kind], names: Mapping[Kind, tuple[str, ...]]
) -> dict[Kind, _Scores]:
    found = {k: _usual(source, names[k]) for k in kinds}
    return {k: scores for k, scores in found.items() if scores is not None}


def _usual(source: Source, names: Sequence[str]) -> _Scores | None:
    for name in names:
        column = next(iter(_in_any_case(source, (name,))), name)
        if source.columns.get(column) is not None:
            return _Scores((column,))
        found = _prefixed(source, f"{name}:") or _numbered(source, f"{name}_")
        if found:
            return found
    return None


def _named(source: Source, wanted: str | Sequence[str] | None) -> _Scores:
    if isinstance(wanted, str) and wanted.endswith("*"):
        prefix = wanted[:-1]
        found = _numbered(source, prefix) or _prefixed(source, prefix)
        if not found:
            raise InputError(f"{source.path}: no column starts with '{prefix}'; {_seen(source)}.")
        return found
    names = (wanted,) if isinstance(wanted, str) else tuple(wanted or ())
    for name in names:
        _require(source, name)
        _check_readable(source, name)
    return _Scores(names, names, per_class=True) if len(names) > 1 else _Scores(names)


def _prefixed(source: Source, prefix: str) -> _Scores | None:
    """Find columns ``prefix + NAME`` in the order of the file; NAME is the class."""
    found = tuple(name for name in source.columns if name.startswith(prefix) and name != prefix)
    names = tuple(name[len(prefix) :] for name in found)
    return _Scores(found, names, per_class=True) if found else None


def _numbered(source: Source, prefix: str) -> _Scores | None:
    """Find columns ``prefix + 0``, ``prefix + 1``, … in the order of their numbers.

    Those that begin at 1, as ratings do, are classes with these names: the label 1 is the first.
    """
    numbers = [name[len(prefix) :] for name in source.columns if name.startswith(prefix)]
    numbers = sorted((n for n in numbers if n.isdecimal()), key=lambda n: (len(n), n))
    found = tuple(prefix + n for n in numbers)
    if len(numbers) > 1 and numbers == [str(k + 1) for k in range(len(numbers))]:
        return _Scores(found, tuple(numbers), per_class=True)
    if numbers != [str(k) for k in range(len(numbers))]:
        raise InputError(
            f"{source.path}: expected the columns {prefix}0, {prefix}1, … without a gap, got "
            f"{_listed(list(found))}. Name the columns of the classes (--logits-column or "
            "--probabilities-column, separated by commas)."
        )
    return _Scores(found, per_class=True) if numbers else None


def _find_label(source: Source, columns: Columns) -> str:
    found = find_label(source, columns)
    if found is None and source.path.suffix == ".npy":
        raise InputError(
            f"{source.path}: there are no labels for it; save them in the same folder, under "
            "the same name with 'labels' in place of 'logits' or 'probs' (test_logits.npy and "
            "test_labels.npy)."
        )
    place = getattr(source, "label_place", None)  # Of a file that has no place for labels.
    if found is None and place is not None:
        raise InputError(
            f"{source.path}: there are no labels for it; save them as {place}, one on each line."
        )
    if found is None:
        raise InputError(
            f"{source.path}: no column 'label', 'y_true' or 'target'; {_seen(source)}. Name it "
            "(--label-column)."
        )
    _check_readable(source, found)
    return found


def find_label(source: Source, columns: Columns) -> str | None:
    """Return the column of labels, or None where none was named and none has a usual name."""
    if columns.label is not None:
        _require(source, columns.label)
        return columns.label
    return next(iter(_in_any_case(source, LABEL_NAMES)), None)


def _find_weights(source: Source, columns: Columns, label: str | None) -> str | None:
    """Find the column of sample weights: one number per label, or per row where that is None.

    A column of a usual name is one unless it is named as a group.
    """
    if columns.weights == "":
        return None
    shapes = ((), None if label is None else source.columns[label])
    if columns.weights is not None:
        _require(source, columns.weights)
        if source.columns[columns.weights] not in shapes:
            raise InputError(f"{source.path}: '{columns.weights}' must hold one weight per row.")
        return columns.weights
    named = columns.groups or ()
    usual = (name for name in _in_any_case(source, WEIGHT_NAMES) if name not in named)
    return next((name for name in usual if source.columns[name] in shapes), None)


def _find_groups(
    source: Source, columns: Columns, label: str, taken: set[str | None]
) -> tuple[str, ...]:
    """Find the columns with one value per label that are not taken."""
    fits = [
        name
        for name, shape in source.columns.items()
        if shape in ((), source.columns[label]) and source.length(name) == source.length(label)
    ]
    if columns.groups is None:
        for kind in _SCORES:  # Scores of the other kind are no groups.
            taken |= _other_scores(source, kind)
        return tuple(name for name in fits if name not in taken)
    for name in columns.groups:
        _require(source, name)
        if name not in fits:
            raise InputError(f"{source.path}: group '{name}' must hold one value per row.")
    return tuple(columns.groups)


def _other_scores(source: Source, kind: Kind) -> set[str]:
    """Return the columns with scores of a kind; numbers with gaps, as of days, are no classes."""
    try:
        other = _usual(source, _SCORES[kind])
    except InputError:
        return set()
    return set(other.columns if other else ())


def signal_name(column: str) -> str:
    """Return the name of the signal that a column holds.

    >>> signal_name("signal.pieces"), signal_name("pieces")
    ('pieces', 'pieces')
    """
    return column.removeprefix(SIGNAL)


def _find_signals(source: Source, columns: Columns) -> tuple[str, ...]:
    """Find the columns of signals, which must hold numbers."""
    if columns.signals is None:
        found = tuple(name for name in source.columns if name.startswith(SIGNAL))
    else:
        found = tuple(columns.signals)
    for name in found:
        _require(source, name)
        _check_readable(source, name)
    return found


def _check_readable(source: Source, name: str) -> None:
    if source.columns[name] is None:
        raise InputError(
            f"{source.path}: '{shortened(name)}' holds lists of text, or objects; expected numbers "
            "or text, or a list of numbers in each row."
        )


def _require(source: Source, name: str) -> None:
    if name not in source.columns:
        advice = nearest_name(name, source.columns)
        raise InputError(f"{source.path}: no column '{name}'; {_seen(source)}. {advice}".strip())


def _seen(source: Source) -> str:
    return f"it has {_listed(list(source.columns))}"


def _listed(names: list[str], first: int = 8, last: int = 4) -> str:
    """Return the first and the last names: labels often follow one column per class."""
    shown = [shortened(name) or "''" for name in names]
    if (left_out := len(names) - first - last) > 0:
        shown[first:-last] = [f"… ({left_out:,} more)"]
    return ", ".join(shown)
