"""No result depends on the size of a chunk: every constant that cuts a walk is made small in turn.

The constants are found by their names in the source, so that a new walk is tested automatically.
Each is also made unusable, which the walk must notice: a walk that does not read the constant would
pass at any size.
"""

import ast
import re
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant import Claims, Predictions, files
from calibrant.auditing import audit
from calibrant.calibrators import CALIBRATORS
from calibrant.comparison.cross_validation import example_nll
from calibrant.files import rewrite
from calibrant.files.formats import fingerprints
from calibrant.files.unlabelled import stream_top_labels, stream_unlabelled
from calibrant.metrics import Bins, CalibrationState, confidences, ece
from calibrant.metrics.blocks import hash_values
from calibrant.metrics.sketch import Sketched
from calibrant.predictions import softmax
from calibrant.watching import watch

SOURCE = Path(calibrant.__file__).parent
WALKED = ("metrics", "calibrators", "comparison", "files", "watching", "validation.py")
CUTS = re.compile(
    r"_?(\w*_)?(CHUNK|ROWS|READ|BYTES|PIECE|BUFFER|NUMBERS|PENDING|CHARACTERS|SMALLEST|LARGEST"
    r"|LEAST|WORTH_CALLING|WORTH_THREADS|VALUES)"
)
# Names like those of a chunk that are something else.
NO_CHUNKS = {
    ("calibrant.metrics.table", "_ROWS"),  # Of a table.
    ("calibrant.metrics.kernel_dispatch", "_WORTH_CALLING"),  # See test_kernels.py.
    ("calibrant.metrics.kernels.rows", "_ROWS"),  # Compiled in; test_kernels.py has more rows.
    ("calibrant.calibrators.curvature", "_MOST_ROWS"),  # Of a sample, for more than 32 classes.
    ("calibrant.comparison.recommendation", "_LEAST"),  # A probability.
    ("calibrant.comparison.under_shift", "_ROWS"),  # Of a sample.
    ("calibrant.watching.drift_test", "_LEAST"),  # The first cell.
}


def constants():
    """Module and name of each number, assigned at the top of a module, that cuts a walk."""
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if place.parts[0] not in WALKED:
            continue
        module = ".".join(["calibrant", *place.with_suffix("").parts])
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Assign):
                names = [n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name)]
                cuts = {(module, name) for name in names if CUTS.fullmatch(name)}
                yield from sorted(cuts - NO_CHUNKS)


def drawn(n=97, classes=5):
    generator = np.random.default_rng(0)
    logits = 2 * generator.normal(size=(n, classes))
    labels = generator.integers(0, classes, n)
    labels[::10] = -100
    sentence = [f"{'a long name ' * (k % 9)}{k // 4}" for k in range(n)]
    return logits, labels, {"sentence": sentence, "position": np.arange(n) % 4}


def measured():
    """Every number of an audit, by NumPy and by the compiled kernels, and what audits sum."""
    logits, labels, groups = drawn()
    found = []
    for kind, scores in (("logits", logits), ("probabilities", softmax(logits))):
        p = getattr(Predictions, f"from_{kind}")(scores.astype(np.float32), labels, groups=groups)
        audited = audit(p, bootstrap=20)
        found += numbers(audited)
        found += [*audited.state.class_confidence.ravel(), *confidences(p).confidence, ece(p)]
    claims = Claims.from_top_label(None, softmax(logits).max(1), correct=np.arange(97) % 3 > 0)
    found += numbers(audit(claims, bootstrap=0))
    many = Predictions.from_logits(*drawn(97, 400)[:2])  # Classes get sums of their own.
    found += numbers(audit(many, bootstrap=20))
    kept = Sketched()
    kept.add(confidences(many))
    found += [*kept.take().count, *kept.take().correct]
    texts = np.array([name * 300 for name in groups["sentence"]], object)
    return np.array([*found, *hash_values(texts).astype(float)], float)


def numbers(audited):
    return [value for m in audited.measures for value in (m.value, m.low, m.high)]


def tensors():
    """What is summed and checked of tensors of torch, in a type that NumPy lacks too."""
    torch = pytest.importorskip("torch")
    from calibrant.metrics.tensors import add_tensors

    logits, labels, _ = drawn()
    scores = torch.tensor(logits).bfloat16()
    state = CalibrationState.empty(5, Bins(), blocks=(1,))
    add_tensors(state, Predictions.from_logits(scores, torch.tensor(labels)), None)
    return np.concatenate([np.ravel(getattr(state, name)) for name in CalibrationState.SUMS])


def compared():
    return example_nll(Predictions.from_logits(*drawn()[:2]))


def watched():
    """The estimates of a stream without groups, in chunks that a piece may hold several of."""
    logits, labels, _ = drawn(600)
    p = Predictions.from_logits(logits, labels)
    found = watch(p[200:], reference=p[:200], chunk=150)
    return np.array(
        [v for c in found.chunks for v in (c.expected_accuracy.value, c.expected_accuracy.low)]
    )


def mapped():
    logits, labels, groups = drawn(60)
    names = ("O", "B-A", "I-A", "B-B", "I-B")
    p = Predictions.from_logits(logits, labels, label_names=names, groups=groups)
    fitted = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in CALIBRATORS.values():
            fitted.append(entry.calibrator().fit(p).transform(p).probabilities().ravel())
    return np.concatenate(fitted)


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
        found += [part.probabilities().ravel() for part in stream_unlabelled(path)]
    day = folder / "day.csv"
    lines = [f"{k % 3},{0.5 + k / 100}" for k in range(40)]
    day.write_text("\n".join(["predicted,confidence", *lines]))
    found += [part.confidence for part in stream_top_labels(day)]
    return np.concatenate([*found, list(fingerprints(day)[0].sha256.encode())])


def walk(module, folder):
    part = module.split(".")[1]
    if part == "files":
        return stored(folder)
    if module in ("calibrant.metrics.tensors", "calibrant.validation"):
        return np.concatenate([measured(), tensors()])
    return WALKS.get(part, measured)()


WALKS = {"calibrators": mapped, "comparison": compared, "watching": watched}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder, known = tmp_path_factory.mktemp("whole"), {}

    def find(module, kernels):
        key = module, kernels
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
    assert len(found) > 40
    for module, name in NO_CHUNKS:
        assert hasattr(import_module(module), name)


@pytest.mark.parametrize(("module", "name"), sorted(set(constants())))
def test_each_walk_reads_its_constant(monkeypatch, tmp_path, expected, module, name):
    """A walk fails where the number is none, with NumPy or with the compiled kernels."""
    for kernels in ("numpy", "numba"):
        monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
        expected(module, kernels)
        folder = tmp_path / kernels
        folder.mkdir()
        with monkeypatch.context() as changed:
            changed.setattr(import_module(module), name, object())
            try:
                walk(module, folder)
            except Exception:
                return
        pytest.importorskip("numba")
    pytest.fail(f"The walk of {module} does not read {name}.")


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
