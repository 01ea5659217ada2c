"""No result depends on the size of a chunk: every constant that cuts a walk is made small in turn.

The constants are found by their names in the source, so that a new walk is tested automatically.
"""

import ast
import re
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant import Predictions, files
from calibrant.auditing import audit
from calibrant.calibrators import CALIBRATORS
from calibrant.comparison.cross_validation import example_nll
from calibrant.files import rewrite
from calibrant.metrics import confidences, ece
from calibrant.predictions import softmax

SOURCE = Path(calibrant.__file__).parent
WALKED = ("metrics", "calibrators", "comparison", "files", "audit", "validation.py")
CUTS = re.compile(
    r"_?(\w*_)?(CHUNK|ROWS|READ|BYTES|PIECE|BUFFER|NUMBERS|PENDING|CHARACTERS|SMALLEST|LARGEST"
    r"|LEAST|WORTH_CALLING|WORTH_THREADS)"
)


def constants():
    """Module and name of each whole number, assigned at the top of a module, that cuts a walk."""
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if place.parts[0] not in WALKED:
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Assign):
                names = [n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name)]
                module = ".".join(["calibrant", *place.with_suffix("").parts])
                yield from ((module, name) for name in names if CUTS.fullmatch(name))


def drawn(n=97, classes=5):
    generator = np.random.default_rng(0)
    logits = 2 * generator.normal(size=(n, classes))
    labels = generator.integers(0, classes, n)
    labels[::10] = -100
    sentence = [f"{'a long name ' * (k % 9)}{k // 4}" for k in range(n)]
    return logits, labels, {"sentence": sentence, "position": np.arange(n) % 4}


def measured():
    """Every number of an audit, by NumPy and by the compiled kernels."""
    logits, labels, groups = drawn()
    found = []
    for kind, scores in (("logits", logits), ("probabilities", softmax(logits))):
        p = getattr(Predictions, f"from_{kind}")(scores.astype(np.float32), labels, groups=groups)
        audited = audit(p, bootstrap=20)
        found += [value for m in audited.measures for value in (m.value, m.low, m.high)]
        found += [*audited.state.class_confidence.ravel(), *confidences(p).confidence, ece(p)]
    return np.array(found, float)


def mapped():
    logits, labels, groups = drawn(60)
    names = ("O", "B-A", "I-A", "B-B", "I-B")
    p = Predictions.from_logits(logits, labels, label_names=names, groups=groups)
    fitted = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in CALIBRATORS.values():
            fitted.append(entry.calibrator().fit(p).transform(p).probabilities().ravel())
    return np.concatenate([*fitted, example_nll(p)])


def stored(folder):
    logits, labels, groups = drawn(40)
    p = Predictions.from_logits(logits, labels, groups={"position": groups["position"]})
    found = []
    for number, suffix in enumerate(files.suffixes()):
        path, target = folder / f"{number}{suffix}", folder / f"{number}-new{suffix}"
        p.write(path, overwrite=True)
        target.unlink(missing_ok=True)
        rewrite(path, target, lambda read: read, files.Columns())
        for made in (path, target):
            read = files.read(made)
            found += [read.probabilities().ravel(), read.labels, read.groups["position"]]
    return np.concatenate(found)


def walk(module, folder):
    part = module.split(".")[1]
    return stored(folder) if part == "files" else measured() if part != "calibrators" else mapped()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder, known = tmp_path_factory.mktemp("whole"), {}

    def find(module, kernels):
        key = module.split(".")[1], kernels
        if key not in known:
            known[key] = walk(module, folder)
        return known[key]

    return find


@pytest.mark.parametrize("suffix", files.suffixes())
@pytest.mark.parametrize("rows", [1, 7, 39, 40, 41])
def test_the_rows_that_are_rewritten_at_once_do_not_matter(tmp_path, suffix, rows):
    logits, labels, groups = drawn(40)
    p = Predictions.from_logits(logits, labels, groups={"position": groups["position"]})
    path, target, seen = tmp_path / f"p{suffix}", tmp_path / f"q{suffix}", []
    p.write(path)

    def halved(part):
        seen.append(len(part))
        return part.with_scores(part.scores / 2, "logits")

    rewrite(path, target, halved, rows=rows)
    assert sum(seen) == len(p)
    assert max(seen) == min(rows, len(p))
    expected = p.with_scores(p.scores / 2, "logits").probabilities()
    np.testing.assert_allclose(files.read(target).probabilities(), expected, rtol=1e-6)


def test_the_walks_are_found():
    found = set(constants())
    assert ("calibrant.metrics.top_bins", "_CHUNK") in found
    assert ("calibrant.metrics.kernel_dispatch", "_SMALLEST") in found
    assert len(found) > 25


CASES = [
    (*found, size, kernels)
    for found in sorted(set(constants()))
    for size in (1, 64)
    for kernels in ("numpy", "numba")
    if kernels == "numpy" or found[0].endswith(("moments", "top_bins", "accumulate", "compiled"))
]


@pytest.mark.parametrize(("module", "name", "size", "kernels"), CASES)
def test_the_size_of_a_chunk_does_not_matter(
    monkeypatch, tmp_path, expected, module, name, size, kernels
):
    if kernels == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
    whole = expected(module, kernels)
    monkeypatch.setattr(import_module(module), name, size)
    np.testing.assert_allclose(walk(module, tmp_path), whole, rtol=1e-5, atol=1e-7)
