"""The course of the loss in records of ``calibrant bench``."""

import pytest

from calibrant.experiments.grid import run_grid
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import read_records

pytest.importorskip("transformers")


@pytest.mark.parametrize("stack", [1, 2])
@pytest.mark.filterwarnings("ignore::calibrant.calibrators.CalibrationWarning")
def test_the_parts_of_the_curve_make_up_the_mean_loss(corpus, tmp_path, stack):
    common = {"data": str(corpus), "model": "tiny", "epochs": 3, "batch": 4, "dtype": "float32"}
    recipes = [Recipe(method=name, **common) for name in ("cross_entropy", "focal")]
    list(run_grid(recipes, tmp_path, device="cpu", stack=stack))
    for record in read_records(tmp_path):
        curve, steps = record.training["loss_curve"], record.training["steps"]
        assert len(curve["losses"]) == steps // curve["every"]
        if steps % curve["every"] == 0:
            mean = sum(curve["losses"]) / len(curve["losses"])
            assert mean == pytest.approx(record.training["mean_loss"], rel=1e-3)
    assert steps % curve["every"] == 0  # So the comparison above was made.
