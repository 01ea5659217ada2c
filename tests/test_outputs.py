"""Writes are atomic, replace nothing, follow no link, and remove nothing of others."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from calibrant import outputs, unfinished
from calibrant.errors import InputError
from calibrant.outputs import check_writable, new_file, new_files, new_folder

LEFT = ".calibrant-0123456789abcdef.unfinished.txt"


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


@pytest.fixture(autouse=True)
def _unswept(monkeypatch):
    monkeypatch.setattr(unfinished, "_swept", set())


def test_who_comes_second_does_not_replace_the_first(tmp_path):
    """The target is made by another process while this one writes."""
    with pytest.raises(InputError, match="exists; pass overwrite"), new_file(tmp_path / "a") as own:  # noqa: PT012
        own.write_text("mine")
        (tmp_path / "a").write_text("another's")
    assert (tmp_path / "a").read_text() == "another's"
    assert names(tmp_path) == ["a"]


def test_a_failure_does_not_remove_what_another_has_written(tmp_path):
    with pytest.raises(KeyError), new_file(tmp_path / "a"):  # noqa: PT012
        (tmp_path / "a").write_text("another's")
        raise KeyError
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_threads_have_names_of_their_own(tmp_path, kind):
    """Equal process numbers, as in two containers, are the same case."""
    paths, wait = [], threading.Barrier(8)

    def write():
        made = new_file if kind == "file" else new_folder
        with made(tmp_path / f"a{threading.get_ident()}") as own:
            paths.append(own)
            wait.wait()

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 8
    assert len(names(tmp_path)) == 8


def test_eight_threads_and_one_name(tmp_path):
    """One wins, the others are refused, and the file is of one of them."""
    refused = []

    def write(number):
        try:
            with new_file(tmp_path / "a.txt") as own:
                own.write_text(str(number) * 10_000)
        except InputError:
            refused.append(number)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 7
    text = (tmp_path / "a.txt").read_text()
    assert len(text) == 10_000
    assert len(set(text)) == 1
    assert names(tmp_path) == ["a.txt"]


def test_planted_links_are_not_followed(tmp_path, monkeypatch):
    precious = tmp_path / "precious"
    precious.write_text("kept")
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.setattr(unfinished.secrets, "token_hex", lambda _: "0123456789abcdef")
    (folder / LEFT).symlink_to(precious)
    with pytest.raises(InputError, match="cannot be written"), new_file(folder / "a.txt") as own:
        own.write_text("through the link")
    monkeypatch.undo()
    (folder / LEFT).unlink()
    (folder / "a.txt").symlink_to(precious)
    with pytest.raises(InputError, match="exists"), new_file(folder / "a.txt"):
        pass
    with new_file(folder / "a.txt", overwrite=True) as own:
        own.write_text("in place of the link")
    assert not (folder / "a.txt").is_symlink()
    (folder / "dangling").symlink_to(tmp_path / "none")
    with pytest.raises(InputError, match="exists"), new_file(folder / "dangling"):
        pass
    assert precious.read_text() == "kept"
    assert not (tmp_path / "none").exists()


def test_a_folder_between_that_leads_elsewhere_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    out = tmp_path / "out"
    out.mkdir()
    (out / "tables").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is not a folder"), new_files(out, ["tables/a.csv"]):
        pass
    assert names(tmp_path / "elsewhere") == []


def test_what_a_killed_process_left_goes_and_what_a_living_one_holds_stays(tmp_path):
    code = (
        "import os, signal, sys; from calibrant.outputs import new_file, new_folder\n"
        "with new_file('a.txt') as own, new_folder('b') as folder:\n"
        "    own.write_text('half'); (folder / 'x').write_text('half'); print(own, flush=True)\n"
        "    sys.stdin.read() or os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    started = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": tmp_path}
    living, dead = (subprocess.Popen([sys.executable, "-c", code], **started) for _ in "ab")
    held = Path(living.stdout.readline().decode().strip()).name
    dead.stdout.readline()
    dead.communicate()
    assert len(list(tmp_path.iterdir())) == 4  # Two of each.
    with new_file(tmp_path / "c.txt") as own:
        own.write_text("whole")
    assert len(list(tmp_path.iterdir())) == 3
    assert (tmp_path / held).read_text() == "half"
    living.communicate(b"go on")
    assert names(tmp_path) == ["a.txt", "b", "c.txt", "x"]


def test_only_plain_files_of_exactly_this_name_are_swept(tmp_path):
    other, link = tmp_path / ".calibrant-mine.unfinished", tmp_path / LEFT
    other.write_text("mine")
    (tmp_path / "precious").write_text("kept")
    link.symlink_to(tmp_path / "precious")
    os.mkfifo(tmp_path / ".calibrant-00000000000000ff.unfinished")
    before = names(tmp_path)
    unfinished.sweep(tmp_path)
    assert names(tmp_path) == before
    (tmp_path / ".calibrant-00000000000000aa.unfinished.csv").write_text("left")
    unfinished.sweep(tmp_path, again=True)
    assert names(tmp_path) == before


def test_an_unreadable_input_is_not_blamed_on_the_output(tmp_path):
    secret = tmp_path / "secret.csv"
    refused = PermissionError(errno.EACCES, "Permission denied", str(secret))
    with pytest.raises(PermissionError), new_file(tmp_path / "a"):
        raise refused
    with pytest.raises(UnicodeDecodeError), new_file(tmp_path / "a"):
        b"\xff".decode()
    with pytest.raises(MemoryError), new_file(tmp_path / "a"):
        raise MemoryError
    for of_disk in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        message = f"a cannot be written: {os.strerror(of_disk)}"
        with pytest.raises(InputError, match=message), new_file(tmp_path / "a"):
            raise OSError(of_disk, os.strerror(of_disk))
    assert names(tmp_path) == []


def test_without_links_it_is_still_exclusive(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    with new_file(tmp_path / "a") as own:
        own.write_text("mine")
    assert (tmp_path / "a").read_text() == "mine"
    with pytest.raises(InputError, match="File exists"), new_file(tmp_path / "b"):
        (tmp_path / "b").write_text("another's")
    assert names(tmp_path) == ["a", "b"]


def test_what_was_exchanged_meanwhile_is_refused(tmp_path):
    with pytest.raises(InputError, match="another process"), new_file(tmp_path / "a") as own:  # noqa: PT012
        own.unlink()
        own.write_text("another's")
    assert not (tmp_path / "a").exists()


def test_the_longest_name_can_be_written(tmp_path):
    with new_file(tmp_path / ("n" * 250 + ".json")) as own:
        own.write_text("{}")
    assert len(names(tmp_path)[0]) == 255


def test_the_rights_of_a_new_file_are_the_usual_ones(tmp_path):
    old = os.umask(0o027)
    try:
        with new_file(tmp_path / "a") as own:
            own.write_text("")
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("there", ["nothing", "empty"])
def test_a_new_folder_appears_whole(tmp_path, there):
    out = tmp_path / "out"
    if there == "empty":
        out.mkdir()
    with new_files(out, ["a", "b"]) as own:
        (own / "a").write_text("a")
        assert not out.exists() or not any(out.iterdir())
        (own / "b").write_text("b")
    assert names(tmp_path) == ["a", "b", "out"]


def test_files_come_into_a_folder_together_or_not_at_all(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("mine")
    with pytest.raises(KeyError), new_files(out, ["a", "b"]) as own:  # noqa: PT012
        (own / "a").write_text("a")
        raise KeyError
    assert names(out) == ["mine"]
    with pytest.raises(InputError, match="b exists"), new_files(out, ["a", "b", "c"]) as own:  # noqa: PT012
        for name in "abc":
            (own / name).write_text(name)
        (out / "b").write_text("another's")
    assert names(out) == ["b", "mine"]
    with pytest.raises(InputError, match="b exists"), new_files(out, ["a", "b"]):
        pass
    with new_files(out, ["a", "b"], overwrite=True) as own:
        for name in "ab":
            (own / name).write_text("new")
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        "a": "new",
        "b": "new",
        "mine": "mine",
    }


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    for content in ("one", "two"):
        with new_folder(tmp_path / "model", overwrite=True) as own:
            (own / content).write_text("")
    assert names(tmp_path) == ["model", "two"]
    with pytest.raises(InputError, match="exists"), new_folder(tmp_path / "model"):
        pass


@pytest.mark.parametrize("by", ["path", "dots", "symbolic link", "hard link", "folder"])
def test_what_is_read_is_never_written(tmp_path, by):
    source = tmp_path / "in" / "labels.json"
    source.parent.mkdir()
    source.write_text("[]")
    target = tmp_path / "other.json"
    inputs = [source.parent if by == "folder" else source]
    if by in ("path", "folder"):
        target = source
    elif by == "dots":
        target = tmp_path / "in" / ".." / "in" / "labels.json"
    elif by == "symbolic link":
        target.symlink_to(source)
    else:
        target.hardlink_to(source)
    with pytest.raises(InputError, match="it is read here"):
        check_writable(target, overwrite=True, inputs=inputs)


def test_everything_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    happened, sync, replace = [], os.fsync, outputs.take_place
    monkeypatch.setattr(os, "fsync", lambda handle: (happened.append("sync"), sync(handle)))
    monkeypatch.setattr(
        outputs, "take_place", lambda *given: (happened.append("place"), replace(*given))
    )
    with new_file(tmp_path / "a") as own:
        own.write_text("mine")
    assert happened == ["sync", "place", "sync"]  # The file, then its name.
