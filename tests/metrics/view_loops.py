"""Metrics of entities and of images once more, by plain loops from their definitions."""

import math
import statistics

import metric_loops as loops
import numpy as np

from calibrant import Claims, Predictions

NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def tagged_sample(sentences=25, words=6, seed=0):
    """Words with BIO tags in sentences, many of them outside of entities."""
    rng, n = np.random.default_rng(seed), sentences * words
    labels = rng.choice(5, n, p=[0.5, 0.15, 0.1, 0.15, 0.1])
    logits = rng.normal(size=(n, 5)) + 2.5 * np.eye(5)[labels]
    groups = {"sentence": np.repeat(np.arange(sentences), words)}
    return Predictions.from_logits(logits, labels, label_names=NAMES, groups=groups)


def pixel_sample(images=6, pixels=30, seed=0):
    """Pixels of images, some of them near a border."""
    rng, n = np.random.default_rng(seed), images * pixels
    labels = rng.integers(0, 3, n)
    logits = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[labels]
    groups = {"image": np.repeat(np.arange(images), pixels), "border": rng.integers(0, 2, n)}
    return Predictions.from_logits(logits, labels, groups=groups)


def binary_sample(n=150, seed=0):
    """One score per example, many of them below one half."""
    rng = np.random.default_rng(seed)
    scores = rng.random(n).round(2)
    return Predictions.from_probabilities(scores, rng.random(n) < scores**2)


def label_sample(n=60, labels=4, seed=0):
    """Independent probabilities of labels, with ties."""
    rng = np.random.default_rng(seed)
    p = rng.random((n, labels)).round(1)
    return Claims.from_multi_label(p, rng.random((n, labels)) < p)


def _tops(p):
    best = {}
    for c, right, example in zip(p.confidence, p.correct, p.groups["example"], strict=True):
        if example not in best or c > best[example][0]:
            best[example] = (c, right)
    return list(best.values())


def top_accuracy(p):
    return sum(right for _, right in _tops(p)) / len(_tops(p))


def top_confidence(p):
    return sum(c for c, _ in _tops(p)) / len(_tops(p))


def top_ece(p):
    return _ece(_tops(p))


def positive_rate(p):
    return sum(p.labels.tolist()) / len(p)


def positive_score(p):
    return sum(row[1] for row in p.scores.tolist()) / len(p)


def positive_ece(p):
    return _ece([(row[1], label == 1) for row, label in zip(p.scores, p.labels, strict=True)])


def positive_auroc(p):
    scores = list(zip(p.scores[:, 1].tolist(), p.labels.tolist(), strict=True))
    pairs = [(a, b) for a, y in scores if y for b, z in scores if not z]
    return sum((a > b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)


def _predicted(p):
    return [max(range(p.classes), key=lambda k: (row[k], -k)) for row in p.scores]


def _entities(p):
    """(start, end, type) of the predicted and of the gold entities, sentence by sentence."""
    found = [], []
    for number in dict.fromkeys(p.groups["sentence"].tolist()):
        rows = np.flatnonzero(p.groups["sentence"] == number)
        for spans, tags in zip(found, (_predicted(p), p.labels), strict=True):
            sentence = [NAMES[tags[row]] for row in rows]
            spans += [(rows[0] + a, rows[0] + b, kind) for a, b, kind in loops.spans(sentence)]
    return found


def _entity_pairs(p):
    """(product of the words' confidences, right) of each predicted entity."""
    predicted, gold = _entities(p)
    confidence = [value for value, _ in loops.pairs(p)]
    return [(math.prod(confidence[a:b]), (a, b, kind) in gold) for a, b, kind in predicted]


def _ece(scored):
    return sum(w * abs(a - c) for w, a, c, _ in loops._binned(scored, 15, "right"))


def entity_f1(p):
    predicted, gold = _entities(p)
    return 2 * sum(span in gold for span in predicted) / (len(predicted) + len(gold))


def token_f1(p):
    tags = list(zip(_predicted(p), p.labels.tolist(), strict=True))
    right = sum(a == b != 0 for a, b in tags)
    return 2 * right / (sum(a != 0 for a, _ in tags) + sum(b != 0 for _, b in tags))


def entity_precision(p):
    return statistics.mean(right for _, right in _entity_pairs(p))


def entity_confidence(p):
    return statistics.mean(value for value, _ in _entity_pairs(p))


def entity_ece(p):
    return _ece(_entity_pairs(p))


def entity_auroc(p):
    scored = _entity_pairs(p)
    good = [value for value, right in scored if right]
    bad = [value for value, right in scored if not right]
    return sum((g > b) + 0.5 * (g == b) for g in good for b in bad) / (len(good) * len(bad))


def ece_without_o(p):
    kept = [a != 0 or b != 0 for a, b in zip(_predicted(p), p.labels, strict=True)]
    return _ece([pair for pair, inside in zip(loops.pairs(p), kept, strict=True) if inside])


def apcr(p):
    return entity_f1(p) ** 2 / loops.ece(p)


def mean_iou(p):
    tags, found = list(zip(_predicted(p), p.labels.tolist(), strict=True)), []
    for k in range(p.classes):
        either = sum(k in pair for pair in tags)
        found += [sum(pair == (k, k) for pair in tags) / either] if either else []
    return statistics.mean(found)


def _region(p, near):
    of_pixels = zip(loops.pairs(p), p.groups["border"], strict=True)
    return [pair for pair, border in of_pixels if border == near]


def inside_accuracy(p):
    return statistics.mean(right for _, right in _region(p, 0))


def border_accuracy(p):
    return statistics.mean(right for _, right in _region(p, 1))


def inside_ece(p):
    return _ece(_region(p, 0))


def border_ece(p):
    return _ece(_region(p, 1))


def _image_errors(p):
    of_pixels = list(zip(loops.pairs(p), p.groups["image"], strict=True))
    return sorted(
        _ece([pair for pair, image in of_pixels if image == number])
        for number in set(p.groups["image"].tolist())
    )


def image_ece_median(p):
    return statistics.median(_image_errors(p))


def image_ece_high(p):
    """The 90th percentile, between two images on a straight line."""
    errors = _image_errors(p)
    place = 0.9 * (len(errors) - 1)
    low = math.floor(place)
    return errors[low] + (place - low) * (errors[low + 1] - errors[low])
