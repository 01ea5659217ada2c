"""Decisions: on the disk at once, none lost, whoever writes and whatever breaks."""

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from calibrant.errors import InputError
from calibrant.reviewing import Decisions, Document, Span, by_gain, expected_gain
from calibrant.reviewing.decisions import Stale
from calibrant.reviewing.documents import check_spans

DOCUMENTS = [
    Document(str(n), f"Anna {n} met Bob\u2028 in Rome", (Span(0, 4, "PER", n / 10),))
    for n in range(1, 10)
]


ANNA = (Span(0, 4, "PER"),)


def decide(decisions, name, seen=0, reviewer="a", entities=ANNA):
    document = DOCUMENTS[int(name) - 1]
    return decisions.add(name, entities, document.entities, reviewer, seen)


def test_a_decision_is_read_back(tmp_path):
    path = tmp_path / "d.jsonl"
    first = Decisions(path, DOCUMENTS)
    made = decide(first, "3", reviewer="Zoë")
    assert Decisions(path, DOCUMENTS).latest == {"3": made}
    assert Decisions(path).latest == {"3": made}
    lines = path.read_bytes().decode().split("\n")
    assert json.loads(lines[1])["predicted"] == [
        {"start": 0, "end": 4, "type": "PER", "confidence": 0.3}
    ]


def test_a_later_decision_replaces_and_both_stay(tmp_path):
    decisions = Decisions(tmp_path / "d", DOCUMENTS)
    decide(decisions, "3")
    decide(decisions, "3", seen=1, entities=())
    assert decisions.latest["3"].entities == ()
    assert decisions.counts == {"3": 2}


def test_what_somebody_else_decided_meanwhile_is_not_overwritten(tmp_path):
    ours, theirs = (Decisions(tmp_path / "d", DOCUMENTS) for _ in range(2))
    decide(theirs, "3", reviewer="them")
    with pytest.raises(Stale):
        decide(ours, "3")
    assert Decisions(tmp_path / "d").latest["3"].reviewer == "them"
    decide(ours, "4")  # Others go on.
    theirs.refresh()
    assert set(theirs.latest) == {"3", "4"}


def _write_many(path, reviewer, count):
    decisions = Decisions(path, DOCUMENTS)
    for _ in range(count):
        while True:
            try:
                decide(decisions, "1", decisions.counts.get("1", 0), reviewer)
                break
            except Stale:
                pass


def test_processes_lose_nothing_of_each_other(tmp_path):
    path, count = tmp_path / "d", 40
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write_many, args=(path, str(n), count)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert Decisions(path).counts == {"1": 4 * count}
    names = [json.loads(line)["reviewer"] for line in path.read_text().split("\n")[1:-1]]
    assert {name: names.count(name) for name in names} == dict.fromkeys("0123", count)


def test_threads_share_one_object(tmp_path):
    decisions = Decisions(tmp_path / "d", DOCUMENTS)
    failures = []

    def work(name):
        try:
            for number in range(60):
                decide(decisions, name, number)
                decisions.refresh()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(str(n),)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert Decisions(tmp_path / "d").counts == dict.fromkeys("1234", 60)


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_half_of_a_line_does_not_hurt(tmp_path, cut):
    path = tmp_path / "d"
    decisions = Decisions(path, DOCUMENTS)
    decide(decisions, "1")
    whole = path.stat().st_size
    decide(decisions, "2")
    with path.open("r+b") as file:  # A kill in the middle of writing.
        file.truncate(whole + cut)
    again = Decisions(path, DOCUMENTS)
    assert set(again.latest) == {"1"}
    decide(again, "3")
    assert set(Decisions(path).latest) == {"1", "3"}


def test_a_kill_in_the_middle_loses_no_answered_decision(tmp_path):
    """A process says which decisions it has made; after kill −9 all of them are there."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from test_decisions import DOCUMENTS, decide\n"
        "from calibrant.reviewing import Decisions\n"
        "d = Decisions(sys.argv[1], DOCUMENTS)\n"
        "for n in range(10**6):\n"
        "    decide(d, '1', n); print(n, flush=True)\n"
    )
    path = tmp_path / "d"
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    )
    for _ in range(30):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read()
    process.wait(10)
    process.stdout.close()
    answered = 30 + len(rest.splitlines())
    assert Decisions(path).counts["1"] in (answered, answered + 1)


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_half_of_the_first_line_does_not_hurt(tmp_path, cut):
    """A kill in the middle of the first write: the same command begins again."""
    path = tmp_path / "d"
    Decisions(path, DOCUMENTS)
    path.write_bytes(path.read_bytes()[:cut])
    decide(Decisions(path, DOCUMENTS), "1")
    assert set(Decisions(path).latest) == {"1"}


@pytest.mark.parametrize("how", ["removed", "replaced", "shortened"])
def test_a_file_that_changes_under_the_review_is_not_written(tmp_path, how):
    path = tmp_path / "d"
    decisions = Decisions(path, DOCUMENTS)
    decide(decisions, "1")
    saved = path.read_bytes()
    if how == "shortened":
        path.write_bytes(saved[:-10])
    else:
        path.unlink()
    if how == "replaced":
        path.write_bytes(saved.replace(b"Anna", b"Bert") + saved)
    before = path.read_bytes() if path.exists() else b""
    for call in (lambda: decide(decisions, "2"), decisions.refresh):
        with pytest.raises(InputError, match="removed or replaced"):
            call()
    assert path.read_bytes() == before


def test_a_lock_that_never_ends_is_an_error(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    decisions = Decisions(tmp_path / "d.jsonl", DOCUMENTS)
    monkeypatch.setattr("calibrant.reviewing.journal._PATIENCE", 0.05)
    with decisions.path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        for act in (decisions.refresh, lambda: decide(decisions, "1")):
            with pytest.raises(InputError, match="locked by another process"):
                act()
    decide(decisions, "1")
    assert list(Decisions(decisions.path).latest) == ["1"]


@pytest.mark.parametrize("size", [None, "9", 0, True])
def test_a_head_without_the_number_of_documents(tmp_path, size):
    path = Decisions(tmp_path / "d.jsonl", DOCUMENTS).path
    path.write_text(json.dumps({**json.loads(path.read_text()), "documents": size}) + "\n")
    with pytest.raises(InputError, match="not a file of decisions"):
        Decisions(path)


def test_a_file_that_may_only_be_read(tmp_path):
    path = tmp_path / "d"
    decide(Decisions(path, DOCUMENTS), "1")
    read = os.open

    def only_reads(name, flags, *more, **options):
        assert flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) == 0
        return read(name, flags, *more, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", only_reads)
        assert set(Decisions(path).latest) == {"1"}


@pytest.mark.parametrize(
    "change",
    [
        {"entities": [{"start": "0", "end": 4, "type": "PER"}]},
        {"entities": [{"start": 0, "end": 400, "type": "PER"}]},
        {"entities": [{"start": 0, "end": 4}]},
        {"entities": None},
        {"predicted": [{"start": 0, "end": 4, "type": "PER", "confidence": 2}]},
        {"text": None},
        {"document": 1},
    ],
)
def test_a_line_that_somebody_changed_is_named_not_skipped(tmp_path, change):
    path = tmp_path / "d"
    decide(Decisions(path, DOCUMENTS), "1")
    head, line, _ = path.read_text().split("\n")
    path.write_text(f"{head}\n{json.dumps({**json.loads(line), **change})}\n")
    with pytest.raises(InputError, match="line 2: this is not a decision"):
        Decisions(path)


def test_a_disk_that_is_really_full(tmp_path):
    """A limit of the size of files acts like a full disk: half of a line may be written."""
    script = (
        "import resource, sys; sys.path.insert(0, sys.argv[2])\n"
        "from test_decisions import DOCUMENTS, decide\n"
        "from calibrant.errors import InputError\n"
        "from calibrant.reviewing import Decisions\n"
        "d = Decisions(sys.argv[1], DOCUMENTS)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 10**6))\n"
        "done = 0\n"
        "try:\n"
        "    while True: decide(d, '1', done); done += 1\n"
        "except InputError as error: print(done, error)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))\n"
        "decide(d, '1', done)\n"
    )
    path = tmp_path / "d"
    command = [sys.executable, "-c", script, str(path), str(Path(__file__).parent)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    done = int(found.stdout.split()[0])
    assert done > 0
    assert "cannot be written: File too large" in found.stdout
    decisions = Decisions(path)
    assert (decisions.counts["1"], decisions.damaged) == (done + 1, 0)


def test_a_full_disk_saves_nothing_and_says_so(tmp_path, monkeypatch):
    path = tmp_path / "d"
    decisions = Decisions(path, DOCUMENTS)
    decide(decisions, "1")
    size = path.stat().st_size

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        decide(decisions, "2")
    assert path.stat().st_size == size
    monkeypatch.undo()
    decide(decisions, "2")
    assert set(Decisions(path).latest) == {"1", "2"}


@pytest.mark.parametrize(
    "content", ["", "x", "{}\n", "no json\n", '{"signature": "other"}\n', "[]\n"]
)
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "d").write_text(content)
    if content:
        with pytest.raises(InputError, match="not a file of decisions"):
            Decisions(tmp_path / "d", DOCUMENTS)
        assert (tmp_path / "d").read_text() == content
    else:
        assert Decisions(tmp_path / "d", DOCUMENTS).latest == {}


def test_decisions_about_other_texts_are_refused(tmp_path):
    Decisions(tmp_path / "d", DOCUMENTS)
    with pytest.raises(InputError, match="other texts"):
        Decisions(tmp_path / "d", DOCUMENTS[1:])
    with pytest.raises(InputError, match="no file"):
        Decisions(tmp_path / "nothing")


def test_the_order():
    """By hand: .5 errors per entity, then .3 (mean of .1 and .5), then nothing to gain."""
    one = Document("one", "a b", (Span(0, 1, "X", 0.9), Span(2, 3, "X", 0.5)))
    two = Document("two", "a", (Span(0, 1, "X", 0.5),))
    none = Document("none", "a", ())
    assert [expected_gain(d) for d in (one, two, none)] == [0.3, 0.5, 0.0]
    assert [d.id for d in by_gain([none, one, two])] == ["two", "one", "none"]


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        ([Span(0, 4, "PER"), Span(3, 6, "PER")], "overlap"),
        ([Span(0, 100, "PER")], "not in a text"),
        ([Span(-1, 4, "PER")], "not in a text"),
        ([Span(4, 4, "PER")], "not in a text"),
        ([Span(0, 4, "DOG")], "Unknown type"),
        ([Span(4, 5, "PER")], "only blanks"),
        ([Span(12, 13, "PER")], "only blanks"),
    ],
)
def test_bad_spans(spans, words):
    with pytest.raises(InputError, match=words):
        check_spans("Anna met Bob\u200b", spans, ("PER", "LOC"))
    check_spans("Anna met Bob", [Span(0, 4, "PER"), Span(4, 6, "LOC")], ("PER", "LOC"))
