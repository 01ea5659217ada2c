"""Start a Spark session, or use the one that the process has; its errors in one line."""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calibrant.distributed.quiet_start import without_error_output
from calibrant.distributed.ray_cluster import check_answers
from calibrant.errors import CalibrantError, InputError
from calibrant.extras import require

__all__ = ["spark_errors", "spark_session"]

_PURPOSE = "The engine 'spark'"
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_MASTER = re.compile(r"local(\[[^\]]+\])?|local-cluster\[[^\]]+\]|yarn|(spark|k8s|mesos)://.+")
_FILE = re.compile(
    r"(?:reading file|File|file)[: ]+['\"]?(?:file:/*(?=/))?(/?[^\s'\",]+?\.parquet)"
)


@contextmanager
def spark_session(master: str) -> Iterator[Any]:
    """Yield the active session, or one at ``master`` that lasts as long as the block."""
    sql = require("pyspark.sql", "spark", _PURPOSE)
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    _check_java()
    if not _MASTER.fullmatch(master):  # Java would print its own lines about it.
        raise _unreachable(master, "there is no such master.")
    if master.startswith("spark://") and "," not in master:  # One of several may be down.
        check_answers(master.removeprefix("spark://"), _unreachable)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = _started(sql.SparkSession.builder, master)
    try:
        yield session
    finally:
        session.stop()


def _started(builder: Any, master: str) -> Any:
    for name, value in _QUIET.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings(), without_error_output() as written:
        warnings.simplefilter("ignore")
        try:
            return builder.master(master).appName("calibrant").getOrCreate()
        except Exception as error:  # Of the JVM, of its bridge, or of the shell that starts it.
            raise _unreachable(master, _last_words(written()) or _first_line(error)) from None


def _last_words(written: str) -> str:
    """Return why Java ended before it could say so to Python, if it did.

    >>> _last_words("Exception in thread main: a.b.SparkException: No HADOOP_CONF_DIR is set.")
    'No HADOOP_CONF_DIR is set.'
    """
    lines = [line for line in written.splitlines() if line.startswith("Exception in thread")]
    return f"{lines[0].rpartition('Exception: ')[2].rstrip('.')}." if lines else ""


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and Path(home, "bin", "java").exists()):
        raise InputError(
            f"{_PURPOSE} needs Java 17 or later, which is not found: install it (Debian: apt "
            "install openjdk-17-jre-headless), or set JAVA_HOME."
        )


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn errors of Spark into one line: a damaged file by its name, workers that are lost."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # About versions of pandas, unused here.
            yield
    except CalibrantError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("py4j", "pyspark")):
            raise
        raise _in_words(_first_line(error), str(error)) from None


def _in_words(line: str, whole: str) -> CalibrantError:
    if (found := _FILE.search(whole)) is not None:
        return InputError(f"{found[1]}: Spark cannot read it; it may be truncated.")
    if "ExecutorLostFailure" in whole:
        return CalibrantError(
            "The executors of a partition were lost too often, perhaps because memory ran out: "
            "smaller partitions need less."
        )
    return CalibrantError(f"Spark: {line}")


def _first_line(error: BaseException) -> str:
    """Return what Java says, without the names of its classes; of Python, what was raised."""
    cause = getattr(error, "java_exception", None)
    lines = str(error if cause is None else cause.getMessage() or cause).strip().splitlines()
    chosen = -1 if any(line.startswith("Traceback") for line in lines) else 0
    return f"{lines[chosen].rstrip('.')}." if lines else "no reason."


def _unreachable(master: str, reason: str) -> InputError:
    return InputError(
        f"No Spark at '{master}': {reason} A master is local[4], spark://HOST:PORT, yarn or "
        "k8s://HOST:PORT."
    )
