"""Tables of Delta and Iceberg, of which rows were deleted."""

import pytest
from tests.distributed.lakes import table


@pytest.fixture
def delta(tmp_path):
    """A Delta table of two writes, of which a third of the rows were deleted since."""
    deltalake = pytest.importorskip("deltalake", reason="Delta: pip install 'calibrant[delta]'")
    place = tmp_path / "delta"
    deltalake.write_deltalake(place, table())
    deltalake.write_deltalake(place, table(200, 1), mode="append")
    deltalake.DeltaTable(place).delete("label = 0")
    return place


@pytest.fixture
def iceberg(tmp_path):
    """An Iceberg table of a catalog, of which rows were deleted since, and its folder."""
    pytest.importorskip("pyiceberg", reason="Iceberg: pip install 'calibrant[iceberg]'")
    pytest.importorskip("sqlalchemy", reason="a catalog: pip install 'pyiceberg[sql-sqlite]'")
    from pyiceberg.catalog.sql import SqlCatalog

    house = tmp_path / "house"
    house.mkdir()
    places = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{house}"}
    catalog = SqlCatalog("house", **places)
    catalog.create_namespace("scores")
    made = catalog.create_table("scores.valid", schema=table().schema)
    made.append(table())
    made.append(table(200, 1))
    made.delete("label = 0")
    yield made, house / "scores" / "valid", places
    catalog.close()
