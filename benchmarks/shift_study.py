"""Calibration under shift, with the tested kind of corruption left out of the fit.

    python benchmarks/shift_study.py conll2003-0.npz conll2003-1.npz … -o shift-study.jsonl

Reads files of ``collect_signals.py``. For each corruption, a shift-aware calibrator is fitted on
the clean validation part and on copies of the *other* kinds. The clean test part, other corpora
and texts out of scope are tested with a fit on all kinds. Beside it: the scores as they are,
temperature and the default choice, both fitted on clean validation, and, with several files of one
data set, the mean probabilities of these models. Writes one line per file, test part and setting:
the ECE over all rows and over rows that are predicted to be entities, the accuracy, what the mean
confidence says of it, and ATC's estimate. ``--entities`` tests the learned confidence of whole
entities in the same way, beside that learned from clean validation. ``--batch 100`` tests the
calibrator that also reads means over a hundred rows of one condition. ``--with strict`` reads a
signal of damage that was learned without the random kind that resembles the tested one most, and
``--with no-blocks`` one that never saw random blocks. ``shift_tables.py`` prints the tables of
finished files.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import Predictions
from calibrant.calibrators import Calibrator, ShiftAware, Temperature
from calibrant.claims import Claims
from calibrant.comparison import SpanCalibrator, select_calibrator
from calibrant.comparison.entity_signals import entity_claims
from calibrant.experiments.record import circumstances
from calibrant.metrics import accumulate, ece

STRENGTHS = (1, 3, 5)
CLEAN = "clean"
SAME = ("casing", "lower-case", "upper-case")  # Nothing to an encoder that reads lower case only.
CLEAN_WEIGHT = 1.0  # Clean rows count as much as all copies together.
GIVEN = {"ner": ("pieces",), "text": ("pieces", "norm"), "image": ("norm", "distance")}
WITHOUT = "damage_without_random-"
# Further columns, by the name of a setting; "run" is what a run of ``calibrant train`` computes.
FURTHER = {
    "distance": ("distance",),
    "inner": ("inner_1", "inner_2", "inner_3"),
    "run": ("run_energy", "run_norm", "run_distance", "run_own_distance"),
    "damage": ("run_energy", "run_norm", "run_distance", "run_own_distance", "run_damage"),
    "no-blocks": ("run_energy", "run_norm", "run_distance", "run_own_distance", f"{WITHOUT}blocks"),
}
STRICT = "strict"  # As "damage", whose column depends on the tested kind.
NEAREST = {  # The random kind that resembles a kind most; brightness and contrast are tones.
    "gaussian-noise": "waves", "shot-noise": "waves", "impulse-noise": "waves",
    "gaussian-blur": "filter", "defocus-blur": "filter", "motion-blur": "filter",
    "contrast": "tones", "brightness": "tones", "pixelate": "blocks", "jpeg": "blocks",
}  # fmt: skip
DEFAULTS = ("temperature", "spline", "isotonic-top-label", "structured-vector")

Transform = Callable[[Predictions], Predictions]


class Parts:
    """The parts of one file, as predictions."""

    def __init__(self, path: Path, batch: int = 0) -> None:
        self.path, self.arrays, self.batch = path, np.load(path), batch
        self.about = json.loads(str(self.arrays["about"]))
        self.task, self.data = self.about["recipe"]["task"], self.about["recipe"]["data"]
        self.names = [k.rpartition("/")[0] for k in self.arrays.files if k.endswith("/logits")]
        self.labels = _labels(self.task, self.data)

    @property
    def kinds(self) -> list[str]:
        """The corruptions."""
        strong = f"-{STRENGTHS[-1]}"
        found = (name.removeprefix("valid/") for name in self.names if name.startswith("valid/"))
        return [name.removesuffix(strong) for name in found if name.endswith(strong)]

    @property
    def others(self) -> list[str]:
        """Test parts that no corruption made."""
        made = {f"{kind}-{strength}" for kind in self.kinds for strength in STRENGTHS}
        tests = (name.removeprefix("test/") for name in self.names if name.startswith("test/"))
        return [name for name in tests if name not in made]

    def get(self, split: str, name: str, signals: Sequence[str] | None = None) -> Predictions:
        """Return one part; rows out of scope count as wrong, with a label that nothing predicts."""
        columns = {c: self._column(split, name, c) for c in ("logits", "labels")}
        logits, labels = columns["logits"].astype(np.float32), columns["labels"].astype(np.int64)
        logits, labels = _out_of_scope(logits, labels)
        groups: dict[str, Any] = {"corruption": np.full(len(labels), "" if name == CLEAN else name)}
        if self.task == "ner":
            groups["sentence"] = self._column(split, name, "sentence")
        if self.batch:  # Rows in random order: classes may be sorted.
            place = np.random.default_rng(0).permutation(len(labels))
            groups["batch"] = place // self.batch
        wanted = GIVEN[self.task] if signals is None else signals
        given = {s: self._column(split, name, s).astype(np.float64) for s in wanted}
        return Predictions.from_logits(
            logits, labels, label_names=self.labels, groups=groups, signals=given
        )

    def has(self, columns: Iterable[str]) -> bool:
        """Whether the file has these columns."""
        return all(f"valid/{CLEAN}/{column}" in self.arrays for column in columns)

    def copies(self, left_out: str = "", **options: Any) -> Predictions:
        """Return clean validation and its copies, without one kind of them."""
        return _joined([self.get("valid", name, **options) for name in self.copied(left_out)])

    def copied(self, left_out: str = "") -> list[str]:
        """Return the names of clean validation and of its copies, without one kind."""
        kinds = [kind for kind in self.kinds if kind != left_out]
        return [CLEAN, *(f"{kind}-{s}" for kind in kinds for s in STRENGTHS)]

    def _column(self, split: str, name: str, column: str) -> np.ndarray:
        return np.asarray(self.arrays[f"{split}/{name}/{column}"])


def _out_of_scope(logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give rows without a class their least likely one: whatever is predicted is wrong."""
    return logits, np.where(labels < 0, logits.argmin(1), labels)


def _labels(task: str, data: str) -> tuple[str, ...] | None:
    if task != "ner":
        return None
    from calibrant.tasks.ner.corpus import load_corpus

    return tuple(load_corpus(data).labels)


def _joined(parts: Sequence[Predictions]) -> Predictions:
    return Predictions.from_logits(
        np.concatenate([p.scores for p in parts]),
        np.concatenate([p.labels for p in parts]),
        label_names=parts[0].label_names,
        groups={g: np.concatenate([p.groups[g] for p in parts]) for g in parts[0].groups},
        signals={s: np.concatenate([p.signals[s] for p in parts]) for s in parts[0].signals},
    )


def measured(test: Predictions, threshold: float | None, background: int) -> dict[str, Any]:
    """Return the numbers of one test part under one setting; no ``threshold``: without ATC."""
    probabilities = test.probabilities()
    predicted = probabilities.argmax(1)
    confidence = probabilities[np.arange(len(predicted)), predicted]
    right = predicted == test.labels
    found = {
        "ece": float(ece(accumulate(test))),
        "accuracy": float(right.mean()),
        "confidence": float(confidence.mean()),
        "atc": None if threshold is None else float((confidence >= threshold).mean()),
        "rows": len(right),
    }
    if background >= 0 and (inside := predicted != background).any():
        entities = Predictions.from_probabilities(probabilities[inside], test.labels[inside])
        found["entity_words_ece"] = float(ece(accumulate(entities)))
    return found


def atc_threshold(valid: Predictions) -> float:
    """Return the confidence that as many validation rows reach as are right (Garg et al. 2022)."""
    probabilities = valid.probabilities()
    right = probabilities.argmax(1) == valid.labels
    return float(np.quantile(probabilities.max(1), 1 - right.mean()))


def study(
    parts: Parts, ablations: bool, further: str, clean_only: bool
) -> Iterator[dict[str, Any]]:
    """Yield the results of one file."""
    background = -1 if parts.labels is None else parts.labels.index("O")
    clean = parts.get("valid", CLEAN)
    for setting, calibrator in ({} if further or parts.batch else ordinary(clean)).items():
        yield from _tests(parts, parts_of(parts), setting, calibrator, background)
    tests = tests_by_kind(parts)
    if clean_only:
        tests = {"": tests[""]}
    where = f", batches of {parts.batch}" if parts.batch else ""
    forms: dict[str, Callable[[str], dict[str, Any]]] = {f"shift-aware{where}": lambda _: {}}
    if ablations:
        forms |= {"shift-aware, scores alone": lambda _: {"signals": ()}}
    if further:
        columns = partial(_signals, parts.task, further)
        forms = {f"shift-aware, with {further}{where}": lambda kind: {"signals": columns(kind)}}
    for setting, options_of in forms.items():
        for kind, names in tests.items():
            options = options_of(kind)
            start = time.perf_counter()
            fitted = ShiftAware(clean_weight=CLEAN_WEIGHT).fit(parts.copies(kind, **options))
            took = time.perf_counter() - start
            for found in _tests(parts, names, setting, fitted, background, **options):
                yield {**found, "fit_s": took}
    if ablations:
        yield from _tests(
            parts,
            parts_of(parts),
            "shift-aware, clean alone",
            ShiftAware(clean_weight=CLEAN_WEIGHT).fit(clean),
            background,
        )


def _signals(task: str, further: str, kind: str) -> tuple[str, ...]:
    """Return the columns of a setting; those of a run replace norm and distance."""
    if further == STRICT:
        *signals, damage = FURTHER["damage"]
        return (*signals, f"{WITHOUT}{NEAREST[kind]}" if kind else damage)
    replaced = any(column.startswith("run_") for column in FURTHER[further])
    kept = (name for name in GIVEN[task] if not replaced or name == "pieces")
    return (*kept, *FURTHER[further])


def ordinary(clean: Predictions) -> dict[str, Calibrator | None]:
    """Return what is compared: no calibrator, and those fitted on clean validation."""
    chosen = select_calibrator(clean, DEFAULTS, bootstrap=200).calibrator
    return {"as trained": None, "temperature": Temperature().fit(clean), "default": chosen}


def tests_by_kind(parts: Parts) -> dict[str, list[str]]:
    """Return the test parts by the kind that is left out of the fit; "" is none."""
    tests = {"": [CLEAN, *(name for name in parts.others if name != CLEAN)]}
    tests |= {kind: [f"{kind}-{s}" for s in STRENGTHS] for kind in parts.kinds}
    there = {
        kind: [n for n in names if f"test/{n}" in parts.names] for kind, names in tests.items()
    }
    return {kind: names for kind, names in there.items() if names}


def entity_study(parts: Parts) -> Iterator[dict[str, Any]]:
    """Yield the results of whole entities: learned from clean words, and from copies."""
    plain = SpanCalibrator().fit(parts.get("valid", CLEAN))
    for name in parts_of(parts):
        found = plain.transform(parts.get("test", name))
        yield _entity_numbers("entities, clean", "beta", name, found.confidence, found.correct)
    known = [name for name in ("distance", "run") if parts.has(FURTHER[name])]
    for setting, further in {
        "entities, shift-aware": (),
        **{f"entities, with {name}": FURTHER[name] for name in known},
    }.items():
        options = {"signals": (*GIVEN["ner"], *further)}
        claims = {
            name: entity_claims(parts.get("valid", name, **options), plain.reduction_)
            for name in parts.copied()
        }
        for kind, names in tests_by_kind(parts).items():
            learned = Claims.concatenate([claims[name] for name in parts.copied(kind)])
            start = time.perf_counter()
            fitted = ShiftAware(clean_weight=CLEAN_WEIGHT).fit(learned)
            took = time.perf_counter() - start
            for name in names:
                test = entity_claims(parts.get("test", name, **options), plain.reduction_)
                new = fitted.transform(test)
                numbers = new.confidence, new.correct
                yield {**_entity_numbers(setting, fitted.name, name, *numbers), "fit_s": took}


def _entity_numbers(
    setting: str, calibrator: str, test: str, confidence: np.ndarray, correct: np.ndarray
) -> dict[str, Any]:
    found = Claims.from_top_label(None, confidence, correct=correct)
    return {
        "setting": setting, "calibrator": calibrator, "test": test, "ece": float(ece(found)),
        "accuracy": float(correct.mean()), "confidence": float(confidence.mean()), "atc": None,
        "rows": len(correct),
    }  # fmt: skip


def parts_of(parts: Parts) -> list[str]:
    """Return the names of all test parts."""
    return [name for names in tests_by_kind(parts).values() for name in names]


def _tests(
    parts: Parts,
    names: Iterable[str],
    setting: str,
    calibrator: Calibrator | None,
    background: int,
    **options: Any,
) -> Iterator[dict[str, Any]]:
    apply: Transform = (lambda p: p) if calibrator is None else calibrator.transform
    threshold = atc_threshold(apply(parts.get("valid", CLEAN, **options)))
    for name in names:
        numbers = measured(apply(parts.get("test", name, **options)), threshold, background)
        about = {"setting": setting, "calibrator": getattr(calibrator, "name", None), "test": name}
        yield {**about, **numbers}


def ensemble(files: Sequence[Parts]) -> Iterator[dict[str, Any]]:
    """Yield the results of the mean probabilities of several models of one data set."""
    first = files[0]
    background = -1 if first.labels is None else first.labels.index("O")
    for name in parts_of(first):
        all_parts = [parts.get("test", name) for parts in files]
        mean = np.mean([p.probabilities() for p in all_parts], axis=0)
        labels = all_parts[0].labels
        together = Predictions.from_probabilities(mean, labels, label_names=first.labels)
        yield {
            "setting": f"ensemble of {len(files)}", "calibrator": None, "test": name,
            **measured(together, None, background),
        }  # fmt: skip


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument(
        "--with",
        dest="further",
        choices=(*FURTHER, STRICT),
        default="",
        help="read further columns",
    )
    parser.add_argument("--clean", action="store_true", help="no corruptions are tested")
    parser.add_argument(
        "--batch", type=int, default=0, help="rows that were collected together; nothing else runs"
    )
    parser.add_argument("--entities", action="store_true", help="whole entities, and no words")
    options = parser.parse_args()
    opened = [Parts(path, options.batch) for path in options.files]
    with options.output.open("a") as output:

        def write(parts: Parts, seed: int | None, found: dict[str, Any]) -> None:
            recipe = parts.about["recipe"]
            about = {"data": recipe["data"], "model": recipe["model"], "seed": seed}
            rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in found.items()}
            line = {**about, **rounded, "trained": parts.about["circumstances"], "fitted": versions}
            output.write(json.dumps(line, separators=(",", ":")) + "\n")
            output.flush()

        versions = {
            **circumstances(),
            "cpu": platform.machine(),
        }
        for parts in opened:
            made = study(parts, options.ablations, options.further, options.clean)
            for found in entity_study(parts) if options.entities else made:
                write(parts, parts.about["recipe"]["seed"], found)
            print(parts.path, flush=True)
        if options.entities or options.batch or options.further:
            return
        for data in {(p.data, p.about["recipe"]["model"]) for p in opened}:
            same = [p for p in opened if (p.data, p.about["recipe"]["model"]) == data]
            if len(same) > 1:
                for found in ensemble(same):
                    write(same[0], None, found)


if __name__ == "__main__":
    main()
