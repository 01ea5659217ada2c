"""A small part of the campaign, and whether its oracles would notice."""

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("safetensors")

import oracles
from campaign import run_campaign
from families_predictions import agreement, damage
from oracles import FailureError, call, run_apart, run_here, same_numbers
from worker import FAMILIES, RUN, run_case

QUICK = [name for name in FAMILIES if name not in ("run folders", "unpacking")]


def test_a_small_campaign_has_no_failure(monkeypatch):
    """The same program as 'make campaign-inputs' runs on twenty thousand cases."""
    monkeypatch.delenv(RUN, raising=False)
    cases, failures, _ = run_campaign("small", range(150), families=QUICK, limit=60)
    assert not failures
    assert sum(cases.values()) == 150
    assert len(cases) > len(QUICK) // 2


def test_a_case_is_the_same_again(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run_case("again", 7, QUICK, keep=tmp_path / name)
    first, second = (sorted((tmp_path / name).rglob("*")) for name in ("a", "b"))
    assert [path.name for path in first] == [path.name for path in second]
    assert [p.read_bytes() for p in first if p.is_file()] == [
        p.read_bytes() for p in second if p.is_file()
    ]


def test_a_real_process_is_checked_too(tmp_path):
    assert run_apart(["audit", str(tmp_path / "none.csv")]).refused


@pytest.mark.parametrize(
    ("raised", "oracle"),
    [
        (lambda: 1 / 0, "traceback"),
        (lambda: 3, "exit code"),
        (lambda: print("calibrant: a\ncalibrant: b", file=sys_stderr()) or 2, "one line"),
        (lambda: 2, "one line"),
        (lambda: print("calibrant: " + "x" * 3000, file=sys_stderr()) or 2, "short line"),
        (lambda: print("calibrant: \x1b[31m", file=sys_stderr()) or 2, "escaped line"),
        (lambda: print("NaN") or 0, "strict JSON"),
        (lambda: print("RuntimeWarning: overflow", file=sys_stderr()) or 0, "warning"),
    ],
)
def test_the_oracles_notice(raised, oracle, monkeypatch):
    monkeypatch.setattr("calibrant.cli.list.run", lambda _: raised())
    oracles._parser.cache_clear()  # A parser knows the functions of the commands.
    with pytest.raises(FailureError) as failure:
        run_here(["list", "methods", "--json"])
    oracles._parser.cache_clear()
    assert failure.value.oracle == oracle


def sys_stderr():
    import sys

    return sys.stderr


def test_a_hang_and_a_death_are_verdicts(monkeypatch, tmp_path):
    import campaign

    for code, oracle in (
        ("import time; time.sleep(60)", "hang"),
        ("import os; os._exit(3)", "death"),
    ):
        (tmp_path / "worker.py").write_text(f"print(flush=True); input(); {code}")
        child = campaign.Child("0", False, [], limit=1.0)
        child.command[1] = str(tmp_path / "worker.py")
        assert child.verdict(1)["oracle"] == oracle


def test_readers_that_disagree_are_noticed(monkeypatch, tmp_path):
    import random

    from calibrant.files import jsonl

    monkeypatch.setattr(jsonl, "column_of_values", lambda values: jsonl.np.zeros(len(values), int))
    monkeypatch.setattr("calibrant.files.arrow_text.find_spec", lambda _: None)

    def several():
        for number in range(20):
            folder = tmp_path / str(number)
            folder.mkdir()
            agreement(random.Random(number), folder, run_here)

    with pytest.raises(FailureError, match="formats agree"):
        several()


def test_damage_that_is_not_noticed_is(monkeypatch, tmp_path):
    import random
    import zipfile

    monkeypatch.setattr(zipfile.ZipExtFile, "_update_crc", lambda self, data: None)

    def several():
        for number in range(200):
            folder = tmp_path / str(number)
            folder.mkdir()
            damage(random.Random(number), folder, run_here)

    with pytest.raises(FailureError, match="damage is noticed"):
        several()


def test_same_numbers_says_where():
    assert same_numbers({"a": [1.0, 2.0]}, {"a": [1.0, 2.0 + 1e-12]}) is None
    assert same_numbers({"a": [1.0, 2.0]}, {"a": [1.0, 2.1]}) == "/a/1: 2.0 and 2.1"
    assert same_numbers({"a": None}, {}) is None
    assert "/b" in same_numbers({"b": "x"}, {"b": "y"})


def test_only_errors_of_calibrant_are_refusals():
    from calibrant.errors import InputError

    def refuse():
        raise InputError("no")

    assert call(refuse) == (None, "no")
    with pytest.raises(FailureError, match="traceback"):
        call(lambda: 1 / 0)
