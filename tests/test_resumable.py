"""A long output continues where a killed process stopped, at any moment."""

import pytest

from calibrant.errors import InputError
from calibrant.resumable import ResumableFile


class Killed(BaseException):
    """As a signal ends a process: nothing is cleaned up."""


def lines(start, stop):
    return [f"{number} {'é' * (number % 7)}\n" for number in range(start, stop)]


def write(path, upto, total=2000, about=None, stop=None):
    with ResumableFile(path, about or {"input": "a"}) as file:
        for line in lines(file.done, total):
            if file.done == upto:
                raise stop or Killed
            file.write(line, inputs=1)
    return path.read_text()


@pytest.mark.parametrize("upto", [0, 1, 511, 512, 513, 1999])
def test_what_was_written_before_a_kill_is_kept(tmp_path, upto):
    path = tmp_path / "out"
    with pytest.raises(Killed):
        write(path, upto)
    assert not path.exists()
    rows = tmp_path / "out.partial" / "rows"
    with rows.open("ab") as file:  # The last bytes may lack their entry in the journal.
        file.write(b"half a li")
    with ResumableFile(path, {"input": "a"}) as file:
        assert file.done == upto
        for line in lines(upto, 2000):
            file.write(line, inputs=1)
    assert path.read_text() == "".join(lines(0, 2000))
    assert not rows.parent.exists()


def test_rows_that_are_cut_short_are_written_again(tmp_path):
    path = tmp_path / "out"
    with pytest.raises(Killed):
        write(path, 1100)
    rows = tmp_path / "out.partial" / "rows"
    rows.write_bytes(rows.read_bytes()[:6000])
    assert write(path, None) == "".join(lines(0, 2000))


def test_another_command_does_not_go_on(tmp_path):
    path = tmp_path / "out"
    with pytest.raises(Killed):
        write(path, 600)
    with pytest.raises(InputError, match="unfinished output of another command"):
        write(path, None, about={"input": "b"})
    with ResumableFile(path, {"input": "b"}, overwrite=True) as file:
        assert file.done == 0
    assert path.read_text() == ""


def test_bad_input_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="line 7"):
        write(tmp_path / "out", 600, stop=InputError("line 7"))
    assert not list(tmp_path.iterdir())


def test_two_processes_do_not_write_one_file(tmp_path):
    with ResumableFile(tmp_path / "out", {"input": "a"}) as file:
        file.write("a", inputs=1)
        with (
            pytest.raises(InputError, match="is being written by another process"),
            ResumableFile(tmp_path / "out", {"input": "a"}),
        ):
            pass
    assert (tmp_path / "out").read_text() == "a"
