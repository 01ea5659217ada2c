"""What a release needs: cited papers, a version, and workflows that name what exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import calibrant
from calibrant.calibrators import CALIBRATORS
from calibrant.methods import METHODS, NOISES
from calibrant.metrics import METRICS

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
PAPERS = sorted(
    {entry.paper for table in (METHODS, NOISES, METRICS) for entry in table.values()}
    | {entry.reference for entry in CALIBRATORS.values()}
)


@pytest.fixture(scope="module")
def cited():
    """Names of the first author with the year."""
    references = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["references"]
    return {(r["authors"][0]["family-names"], r["year"]) for r in references}


@pytest.mark.parametrize("paper", [paper for paper in PAPERS if re.search(r"\d{4}", paper)])
def test_every_paper_that_we_implement_is_cited(paper, cited):
    """'after Guo et al. 2017', 'Wang & Golebiowski, TMLR 2024': first author and year."""
    name = re.match(r"(?:after )?([\w'-]+)", paper).group(1)
    assert (name, int(re.search(r"\d{4}", paper).group())) in cited


def test_the_version_is_known_and_loaded_when_asked_for():
    assert re.match(r"\d+(\.\d+)*", calibrant.__version__)


def test_workflows_run_every_python_and_call_targets_that_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    texts = {p.name: p.read_text() for p in (ROOT / ".github" / "workflows").glob("*.yml")}
    for name, text in texts.items():
        steps = yaml.safe_load(text)["jobs"].values()
        commands = "\n".join(step.get("run", "") for job in steps for step in job["steps"])
        assert set(re.findall(r"^make ([\w-]+)", commands, re.MULTILINE)) <= targets, name
        for script in re.findall(r"python (\S+\.py)", commands):
            assert (ROOT / script).is_file(), script
    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    tested = yaml.safe_load(texts["tests.yml"])["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested == classifiers == ["3.10", "3.11", "3.12", "3.13", "3.14"]


@pytest.mark.parametrize(("version", "pinned"), [((3, 10), False), ((3, 11), True)])
def test_make_pins_versions_only_where_they_exist(tmp_path, version, pinned):
    """NumPy 2.4 and others that we pin need Python 3.11."""
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'import sys; sys.version_info = {version};'\"$2\"\n"
    )
    python.chmod(0o755)
    shown = subprocess.run(
        ["make", "-n", "-B", "demo", f"PYTHON={python}"], cwd=ROOT, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert ("-c constraints.txt" in shown.stdout) == pinned
