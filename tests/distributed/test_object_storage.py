"""Object storage: a server of S3 on this machine, its refusals, and tables with a log there."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest
from tests.distributed.lakes import live, make_known, table
from tests.distributed.shards import random_predictions, write_shards

import calibrant
from calibrant.calibrators import Temperature
from calibrant.cli import main
from calibrant.distributed import apply_to_files, audit, fit
from calibrant.errors import CalibrantError, InputError

MISSING = "make test-integrations installs a server of S3"
s3fs = pytest.importorskip("s3fs", reason=MISSING)
boto3 = pytest.importorskip("boto3", reason=MISSING)
pytest.importorskip("moto.server", reason=MISSING)
pytestmark = pytest.mark.filterwarnings("ignore")  # Of the libraries of Amazon.

P = random_predictions(900)
REFUSED = {
    "s3:GetObject": ["arn:aws:s3:::bucket/refused/part-001.parquet"],
    "s3:PutObject": ["arn:aws:s3:::bucket/refused-output/*"],
}


def policy():
    allowed = [{"Effect": "Allow", "Action": "s3:*", "Resource": ["arn:aws:s3:::*"]}]
    denied = [{"Effect": "Deny", "Action": a, "Resource": r} for a, r in REFUSED.items()]
    return json.dumps({"Version": "2012-10-17", "Statement": allowed + denied})


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """The address of a bucket of a server that checks who asks; its user's keys are set."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    # The first three requests need no key: they make the user that has one.
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "3"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment, **quiet) as server:
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
                patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
                patch.setenv("AWS_ALLOW_HTTP", "true")  # For Delta's library.
                patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
                wait_for(server, port)
                set_keys(patch, *new_user())
                boto3.client("s3").create_bucket(Bucket="bucket")
                folder = write_shards(P, tmp_path_factory.mktemp("in"), [300, 500])
                for name in ("in", "refused"):
                    files().put(str(folder), f"bucket/{name}", recursive=True)
                yield "s3://bucket"
        finally:
            server.kill()


def wait_for(server, port):
    deadline = time.monotonic() + 100
    while True:
        assert server.poll() is None
        assert time.monotonic() < deadline
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return


def new_user():
    iam = boto3.client("iam", aws_access_key_id="nobody", aws_secret_access_key="nothing")
    iam.create_user(UserName="user")
    iam.put_user_policy(UserName="user", PolicyName="some", PolicyDocument=policy())
    key = iam.create_access_key(UserName="user")["AccessKey"]
    return key["AccessKeyId"], key["SecretAccessKey"]


def set_keys(patch, key, secret):
    patch.setenv("AWS_ACCESS_KEY_ID", key)
    patch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    s3fs.S3FileSystem.clear_instance_cache()  # They keep the keys of their first use.


def files():
    return s3fs.S3FileSystem(skip_instance_cache=True)


def test_audit_fit_and_copies_are_those_of_a_folder(storage, tmp_path):
    found = audit(f"{storage}/in", bootstrap=0)
    assert found["ece"].value == pytest.approx(calibrant.audit(P, bootstrap=0)["ece"].value)
    fitted = fit(f"{storage}/in/*.parquet", "temperature")
    assert fitted.temperature_ == pytest.approx(Temperature().fit(P).temperature_, rel=1e-8)
    assert apply_to_files(fitted, f"{storage}/in", f"{storage}/out").rows == 900
    files().get("bucket/out", str(tmp_path / "out"), recursive=True)
    files().get("bucket/in", str(tmp_path / "in"), recursive=True)
    apply_to_files(fitted, str(tmp_path / "in"), tmp_path / "here")
    names = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "out").iterdir())
    for name in names:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_what_is_not_there_is_named(storage):
    for missing in ("in/none.parquet", "none", "in/none/"):
        with pytest.raises(InputError, match=r"in/none|none: there is no such file or folder"):
            audit(f"{storage}/{missing}", bootstrap=0)
    with pytest.raises(InputError, match="s3://nobucket/in: there is no such file or folder"):
        fit("s3://nobucket/in", "temperature")
    with pytest.raises(InputError, match=r"in/\*\.csv: there is no parquet file"):
        audit(f"{storage}/in/*.csv")


@pytest.mark.parametrize("skip", [False, True])
def test_a_refused_object_is_no_damage(storage, skip):
    where = r"^s3://bucket/refused/part-001\.parquet: no permission to read it"
    calibrator = Temperature().fit(P)
    with pytest.raises(InputError, match=where):
        audit(f"{storage}/refused", bootstrap=0, skip_damaged=skip)
    with pytest.raises(InputError, match=where):
        apply_to_files(calibrator, f"{storage}/refused", f"{storage}/no", skip_damaged=skip)


def test_a_refused_output_is_named(storage):
    with pytest.raises(CalibrantError, match=r"refused-output/x: no permission to write it"):
        apply_to_files(Temperature().fit(P), f"{storage}/in", f"{storage}/refused-output/x")
    with pytest.raises(CalibrantError, match=r"nobucket/x: it cannot be written .*bucket"):
        apply_to_files(Temperature().fit(P), f"{storage}/in", "s3://nobucket/x")


@pytest.mark.parametrize(
    ("key", "secret"), [(None, "wrong"), ("wrong", None), ("", "")], ids=["secret", "key", "none"]
)
def test_wrong_keys_are_one_line(storage, key, secret, monkeypatch):
    own = os.environ
    key = own["AWS_ACCESS_KEY_ID"] if key is None else key
    set_keys(monkeypatch, key, own["AWS_SECRET_ACCESS_KEY"] if secret is None else secret)
    why = r"no permission to read it|it cannot be listed \(Unable to locate credentials"
    for path in ("in", "in/part-000.parquet", "in/*.parquet"):
        with pytest.raises(InputError, match=f"^s3://bucket/{path[:2]}[^\n]*: ({why})[^\n]*$"):
            audit(f"{storage}/{path}", bootstrap=0, skip_damaged=True)
    s3fs.S3FileSystem.clear_instance_cache()


def test_copies_that_are_there_stay_when_the_storage_fails(storage, monkeypatch):
    """The same call then makes what is missing."""
    sent, put = [], s3fs.S3FileSystem.put_file

    def failing(self, source, target, *rest, **options):
        sent.append(target)
        if len(sent) == 2:
            raise TimeoutError("the storage does not answer")
        return put(self, source, target, *rest, **options)

    monkeypatch.setattr(s3fs.S3FileSystem, "put_file", failing)
    calibrator = Temperature().fit(P)
    with pytest.raises(CalibrantError, match=r"cannot be written \(the storage does not answer"):
        apply_to_files(calibrator, f"{storage}/in", f"{storage}/again")
    assert apply_to_files(calibrator, f"{storage}/in", f"{storage}/again").rows == 900
    assert len(sent) == 4
    assert len(set(sent)) == 3


def test_a_delta_table_is_read(storage):
    deltalake = pytest.importorskip("deltalake", reason="Delta: pip install 'calibrant[delta]'")
    place, options = f"{storage}/delta", {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    deltalake.write_deltalake(place, table(), storage_options=options)
    deltalake.DeltaTable(place, storage_options=options).delete("label = 0")
    kept = live(place).num_rows
    assert 0 < kept < 300
    assert audit(place, bootstrap=0).provenance["n"] == kept
    with pytest.raises(InputError, match="belongs to a table of Delta"):
        audit(f"{place}/*.parquet", bootstrap=0)


def test_an_iceberg_table_is_read_by_name_and_by_folder(storage, tmp_path, monkeypatch):
    pytest.importorskip("pyiceberg", reason="Iceberg: pip install 'calibrant[iceberg]'")
    pytest.importorskip("sqlalchemy", reason="a catalog: pip install 'pyiceberg[sql-sqlite]'")
    from pyiceberg.catalog.sql import SqlCatalog

    places = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"{storage}/house"}
    endpoint = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"]}
    catalog = SqlCatalog("far", **places, **endpoint)
    catalog.create_namespace("scores")
    made = catalog.create_table("scores.valid", schema=table().schema)
    made.append(table())
    made.append(table(200, 1))
    made.delete("label = 0")
    kept = made.scan().to_arrow().num_rows
    assert 0 < kept < 500
    catalog.close()
    make_known(monkeypatch, "far", {**places, **endpoint})
    named = ("iceberg:far/scores.valid", f"{storage}/house/scores/valid", made.metadata_location)
    for place in named:
        assert audit(place, bootstrap=0).provenance["n"] == kept


@pytest.mark.xdist_group("ray")  # One cluster at a time.
def test_the_commands_on_a_cluster(storage, tmp_path, capsys):
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    saved, on_ray = str(tmp_path / "t.json"), ["--engine", "ray"]
    config = {"_system_config": {"worker_niceness": 0}}
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init("local", num_cpus=1, **quiet, **config)
    try:
        source, target = f"{storage}/in", f"{storage}/commands"
        fitted = ["fit", source, "--calibrator", "temperature", "-o", saved]
        assert main([*fitted, *on_ray]) == 0
        assert main(["apply", saved, source, "-o", target, *on_ray]) == 0
        assert "applied to 900 rows of 3 files" in capsys.readouterr().out
        assert main(["audit", target, "--bootstrap", "0", "--json", *on_ray]) == 0
        measures = json.loads(capsys.readouterr().out)["audit"]["measures"]
        expected = calibrant.ece(Temperature().fit(P).transform(P))
        assert measures["ece"]["value"] == pytest.approx(expected, abs=1e-6)
        assert main(["audit", f"{storage}/refused", *on_ray]) == 2
        assert "part-001.parquet: no permission to read it" in capsys.readouterr().err
        assert main(["apply", saved, source, "-o", f"{storage}/refused-output/y", *on_ray]) == 2
        assert "no permission to write it" in capsys.readouterr().err
    finally:
        ray.shutdown()


def test_an_address_without_an_engine_says_what_to_do(storage, tmp_path, capsys):
    assert main(["audit", f"{storage}/in"]) == 2
    assert "s3://bucket/in: an address needs an engine" in capsys.readouterr().err
