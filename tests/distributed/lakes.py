"""Tables with a log, and what all commands say about them."""

import json

import pyarrow as pa
from tests.distributed.shards import random_predictions

from calibrant.cli import main


def table(n=300, seed=0, **columns):
    p = random_predictions(n, classes=3, seed=seed)
    scores = pa.FixedSizeListArray.from_arrays(pa.array(p.scores.ravel()), 3)
    sites = p.groups["site"].tolist()
    return pa.table({"logits": scores, "label": p.labels, "site": sites, **columns})


def live(place):
    from deltalake import DeltaTable

    return DeltaTable(place).to_pyarrow_table()


def make_known(monkeypatch, name, places):
    """Let pyiceberg know a catalog, as variables of the environment do."""
    import pyiceberg.catalog as catalogs

    for key, value in {"type": "sql", **places}.items():
        place = key.upper().replace(".", "__")
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__{place}", value)
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", type(catalogs._ENV_CONFIG)())


def check_commands(place, kept, folder, capsys, engine):
    """Run the commands on a table of which ``kept`` rows are live."""
    saved, chosen, on = str(folder / "p.json"), str(folder / "c.json"), ["--engine", engine]
    quick = ["--bootstrap", "0"]
    assert main(["audit", place, *quick, "--json", *on]) == 0
    assert json.loads(capsys.readouterr().out)["audit"]["provenance"]["n"] == kept
    assert main(["fit", place, "--calibrator", "platt", "-o", saved, "--json", *on]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == kept
    compared = ["compare", place, place, "--calibrators", "temperature", "--folds", "2", *quick]
    assert main([*compared, *on]) == 2
    assert "hold the same examples" in capsys.readouterr().err
    assert main([*compared, "--force", "-o", chosen, *on]) == 0
    assert f"VALID: {kept} examples, 2 folds; TEST: {kept} examples" in capsys.readouterr().out
    assert main(["apply", saved, place, "-o", str(folder / "copies"), *on]) == 0
    assert f"platt applied to {kept} rows" in capsys.readouterr().out
    assert main(["audit", str(folder / "copies"), *quick, "--json", *on]) == 0
    assert json.loads(capsys.readouterr().out)["audit"]["provenance"]["n"] == kept
    if "://" not in place and not place.startswith("iceberg:"):
        assert main(["apply", saved, place, "-o", f"{place}/copies", *on]) == 2
        assert "would be read with it next time" in capsys.readouterr().err
