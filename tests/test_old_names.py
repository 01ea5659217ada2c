"""Every old spelling works for one release, warns, and names the new one."""

import subprocess
import sys

import pytest

import calibrant
from calibrant.old_names import OLD_NAMES

PYTHON = [
    # Old, new.
    ("calibrant.load", "calibrant.load_run"),
    ("calibrant.interval", "calibrant.metrics.interval"),
    ("calibrant.calibrators.load", "calibrant.calibrators.load_calibrator"),
    ("calibrant.audit.audit", "calibrant.auditing.audit"),
    ("calibrant.audit.learned_entities", "calibrant.auditing.learned_entities"),
]


def value_of(dotted):
    module, _, name = dotted.rpartition(".")
    __import__(module)
    return getattr(sys.modules[module], name)


@pytest.mark.parametrize(("old", "new"), PYTHON)
def test_old_name_in_python(old, new):
    expected = f"^{old} is now {new}; the old name will be removed in the next release.$"
    with pytest.warns(FutureWarning, match=expected) as caught:
        value = value_of(old)
    assert value is value_of(new)
    assert caught[0].filename == __file__


def test_the_table_lists_every_old_name():
    known = {f"{module}.{name}" for module, names in OLD_NAMES.items() for name in names}
    assert known <= {old for old, _ in PYTHON}


def test_an_unknown_name_is_an_attribute_error():
    for module in (calibrant, calibrant.calibrators):
        with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
            _ = module.nothing


def test_the_function_outlives_an_import_of_the_old_module():
    code = """
import calibrant
p = calibrant.Predictions.from_logits([[1.0, 0.0]] * 9, [0] * 9)
first = calibrant.audit(p, bootstrap=0)
import calibrant.audit
assert calibrant.audit(p, bootstrap=0).verdict == first.verdict
from calibrant import audit
assert audit(p, bootstrap=0).verdict == first.verdict
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_the_top_level_is_imported_on_first_use():
    code = "import sys, calibrant; print(*sorted(m for m in sys.modules if 'calibrant' in m))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert loaded.stdout.split() == ["calibrant"]
