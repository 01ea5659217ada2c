"""NumPy and torch side by side; text of any length."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibrant import InputError
from calibrant.arrays import as_array, is_tensor, join_columns, text_array, to_numpy


def test_arrays_stay_what_they_are() -> None:
    array, tensor = np.arange(3), torch.arange(3)
    assert as_array(array) is array
    assert is_tensor(as_array(tensor))
    assert as_array(tensor).data_ptr() == tensor.data_ptr()
    assert isinstance(as_array([1, 2]), np.ndarray)
    assert np.shares_memory(to_numpy(tensor), tensor.numpy())
    assert to_numpy(torch.tensor([1.5]).bfloat16()).dtype == np.float32
    assert to_numpy(torch.tensor([1.5], requires_grad=True)).tolist() == [1.5]


def test_python_objects_are_refused() -> None:
    with pytest.raises(InputError, match=r"missing value \(None\) at place 0"):
        to_numpy(np.array([None, 1], dtype=object))


@given(st.lists(st.text(max_size=100)))
def test_text_is_kept_as_it_is(texts: list[str]) -> None:
    assert text_array(texts).tolist() == texts


def test_long_text_does_not_widen_all() -> None:
    assert text_array(["a", "b" * 64]).dtype.kind == "U"
    assert text_array(["a", "b" * 65]).dtype == object


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.text(max_size=3), min_size=1), st.data())
def test_joined_columns_do_not_depend_on_the_cut(
    values: list[int | str], data: st.DataObject
) -> None:
    def column(part: list[int | str]) -> np.ndarray:
        whole = all(isinstance(value, int) for value in part)
        return np.array(part, np.int64) if whole else text_array([str(v) for v in part])

    cut = data.draw(st.integers(0, len(values)))
    parts = [part for part in (values[:cut], values[cut:]) if part]
    assert join_columns([column(p) for p in parts]).tolist() == column(values).tolist()


def test_torch_is_not_imported_for_numpy() -> None:
    program = (
        "import sys, numpy as np; from calibrant import Predictions\n"
        "p = Predictions.from_logits(np.eye(2), [0, 1]); p.probabilities(); p[:1]; p.numpy()\n"
        "assert not {'torch', 'matplotlib', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_part_of_the_reference_is_an_attribute() -> None:
    """``import calibrant; calibrant.plots.…`` in a new process."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import calibrant, reference\n"
        "for module in list(reference.MODULES)[1:]:\n"
        "    assert getattr(calibrant, module.partition('.')[2]).__name__ == module, module"
    )
    folder = Path(__file__).parents[1] / "scripts" / "docs"
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_wrapping_without_torch_names_its_extra() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import calibrant\n"
        "try: calibrant.wrap\n"
        "except calibrant.MissingExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("Wrapping a model needs torch, which is not installed"), done
    assert "calibrant[transformers]" in done.stdout
