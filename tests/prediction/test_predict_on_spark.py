"""A Spark DataFrame gets a column of predictions, each row once."""

import json
import shutil
import sys

import pytest

import calibrant
from calibrant.distributed import predict
from calibrant.errors import InputError

pyspark = pytest.importorskip("pyspark", reason="Spark: pip install 'calibrant[spark]'")
pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java, see README.md"),
    pytest.mark.filterwarnings("ignore"),  # Of Spark: versions of pandas, sockets.
    pytest.mark.xdist_group("spark"),
]


@pytest.fixture
def spark(monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    builder = pyspark.sql.SparkSession.builder.master("local[1]")
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    yield (session := builder.getOrCreate())
    session.stop()


def test_a_frame_gets_a_column(spark, runs):
    texts = [f"the {word} of {number}" for number in range(15) for word in ("bread", "goal")]
    frame = spark.createDataFrame(list(enumerate(texts)), ["id", "text"]).repartition(2)
    found = predict(frame, runs["text"], device="cpu", top_k=2).toArrow().to_pydict()
    assert sorted(found["id"]) == list(range(30))
    expected = calibrant.load(runs["text"], "cpu").predict(texts, top_k=2)
    assert [texts[number] for number in found["id"]] == found["text"]
    for number, line in zip(found["id"], found["prediction"], strict=True):
        mine, whole = json.loads(line), expected[number].to_dict()
        assert mine["label"] == whole["label"]
        assert mine["confidence"] == pytest.approx(whole["confidence"], abs=1e-4)
        assert len(mine["alternatives"]) == 1
    with pytest.raises(InputError, match="no column 'words' of texts, but id, text"):
        predict(frame, runs["text"], column="words")
