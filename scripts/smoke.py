"""Build the wheel, install it with the least versions that we declare, run every command once.

    python scripts/smoke.py             # NumPy alone
    python scripts/smoke.py --extras    # with torch, transformers, export and service

It needs Python, git and a package index, and leaves nothing behind. ``--newest`` installs the
newest versions instead; ``--keep FOLDER`` keeps everything there.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = "files,plots,transformers,onnx,serve,sklearn,fast"
MISSING = "pip install 'calibrant["  # What a command says that needs an extra.

# Arguments of each command; {…} are the files of `write_files`. Those of NEEDS run with the extras;
# without them, those that start from nothing must name the extra.
CORE = [
    "audit {test} --report audit.html",
    "audit {test} --json --bootstrap 0",
    "compare {valid} {test} --bootstrap 100",
    "fit {valid} -o calibrator.json",
    "apply calibrator.json {test} -o calibrated.csv",
    "audit calibrated.csv --bootstrap 0",
    "adapt calibrator.json --valid {valid} --unlabelled {test} -o adapted.json",
    "guarantee {valid} --target-risk 0.3 -o policy.json",
    "watch {test} --calibrator calibrator.json --reference {valid}",
    "corrupt {text} --kind typos -o typos.txt",
    "list methods",
    "list calibrators",
    "list metrics",
    "list corruptions",
    "list tasks",
    "doctor",
    "completion bash",
]
NEEDS = [
    "train --data synthetic --model tiny --epochs 1 --bootstrap 0 --device cpu -o run",
    "predict run {sentence}",
    "evaluate run --corrupt typos-1 --device cpu",
    "export run -o exported",
    "predict exported {sentence}",
    "wrap run/model --task ner --data synthetic --bootstrap 0 --device cpu -o wrapped",
    "bench {recipe} -o runs --device cpu",
    "report runs -o report",
    "demo --quick -o demo",
]
FIRST = ("train", "bench", "demo")
SERVICES = ("serve run --port {port}", "review text.txt --run run --port {port}")


def main() -> int:
    """Run all steps; the first that fails ends the script with its output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extras", action="store_true", help=f"install {EXTRAS} too")
    parser.add_argument("--newest", action="store_true", help="the newest versions of all packages")
    parser.add_argument("--keep", type=Path, help="work in this new folder, and keep it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.keep or Path(temporary)).resolve()
        folder.mkdir(exist_ok=args.keep is None)
        wheel = build(folder)
        check_wheel(wheel)
        python = install(folder, wheel, extras=args.extras, newest=args.newest)
        run_commands(folder, python, extras=args.extras)
    return 0


def build(folder: Path) -> Path:
    """Build source distribution and wheel, the wheel from the source distribution."""
    python = environment(folder / "tools")
    call([python, "-m", "pip", "install", "--quiet", "build", "uv"])
    call([python, "-m", "build", "--outdir", folder / "dist", ROOT])
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def check_wheel(wheel: Path) -> None:
    """Pure, complete, and without tests."""
    assert wheel.name.endswith("-py3-none-any.whl"), f"{wheel.name} is not pure"
    archive = zipfile.ZipFile(wheel)
    names = set(archive.namelist())
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)
    }
    missing, extra = expected - names, {name for name in names if "test" in name.split("/")[0]}
    assert not missing, f"the wheel lacks {sorted(missing)}"
    assert not extra, f"the wheel should not have {sorted(extra)}"
    assert "calibrant/py.typed" in names
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    relative = re.findall(r"\]\((?!https?://)[^)]*\)", archive.read(metadata).decode())
    assert not relative, f"the package index cannot follow {relative}"
    print(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1e6:.1f} MB")


def environment(folder: Path) -> Path:
    """Make a virtual environment; return its Python."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def install(folder: Path, wheel: Path, *, extras: bool, newest: bool) -> Path:
    """Install the wheel into a fresh environment, by default with the least versions."""
    python = environment(folder / "fresh")
    tools = folder / "tools" / ("Scripts" if sys.platform == "win32" else "bin")
    uv = [tools / "uv", "pip", "install", "--quiet", "--python", python, *index(python)]
    wanted = [word for name in EXTRAS.split(",") for word in ("--extra", name)] if extras else []
    # A version without a wheel for this Python is no version for it.
    resolution = "highest" if newest else "lowest-direct"
    how = ["--only-binary", ":all:", "--resolution", resolution]
    call([*uv, *how, "-r", ROOT / "pyproject.toml", *wanted])
    call([*uv, "--no-deps", wheel])
    call([tools / "uv", "pip", "list", "--python", python])
    return python


def index(python: Path) -> list[str]:
    """Return uv's options for the package index that pip is configured with."""
    found = subprocess.run([python, "-m", "pip", "config", "list"], capture_output=True, text=True)
    options = []
    names = "extra-index-url|index-url|find-links"
    for name, value in re.findall(rf"^\S*?({names})='(.*)'$", found.stdout, re.MULTILINE):
        for address in value.replace("\\n", " ").split():
            options += [f"--{name}", address]
    return options and [*options, "--index-strategy", "unsafe-best-match"]


def run_commands(folder: Path, python: Path, *, extras: bool) -> None:
    """Run every command; those that need an extra must name it where it is missing."""
    work = folder / "work"
    work.mkdir()
    files = write_files(work)
    check_all_are_here(python)
    for line in CORE:
        command(python, work, line.split(), files)
    for line in NEEDS:
        if extras or line.startswith(FIRST):
            command(python, work, line.split(), files, refused=not extras)
    for number, line in enumerate(SERVICES if extras else ()):
        serve(python, work, line, 18765 + number)
    print("Every command ran.")


def check_all_are_here(python: Path) -> None:
    """A new command must be added to the lists above."""
    asked = "from calibrant.cli import COMMANDS; print(*COMMANDS)"
    known = {line.split()[0] for line in [*CORE, *NEEDS, *SERVICES]}
    existing = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)
    assert known == set(existing.stdout.split()), known ^ set(existing.stdout.split())


def command(
    python: Path, work: Path, words: list[str], files: dict[str, str], *, refused: bool = False
) -> None:
    """Run one command in the work folder, and check its exit code."""
    start = time.perf_counter()
    words = [word.format(**files) for word in words]
    done = subprocess.run(
        [python, "-m", "calibrant", *words], cwd=work, capture_output=True, text=True
    )
    wrong = done.returncode != 2 or MISSING not in done.stderr if refused else done.returncode
    if wrong:
        sys.exit(f"calibrant {' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    state = "names its extra" if refused else f"{time.perf_counter() - start:5.1f} s"
    print(f"{state:>15}  calibrant {' '.join(words)[:90]}", flush=True)


def serve(python: Path, work: Path, line: str, port: int) -> None:
    """Start a service, open its page, and stop it."""
    words = line.format(port=port).split()
    service = subprocess.Popen([python, "-m", "calibrant", *words], cwd=work)
    try:
        for _ in range(300):
            time.sleep(0.5)
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
                    assert answer.status == 200
                    break
            except OSError:
                assert service.poll() is None, f"calibrant {line} ended"
        else:
            sys.exit(f"calibrant {line} did not answer.")
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(60)
    print(f"{'answers':>15}  calibrant {line.split()[0]}", flush=True)


def write_files(work: Path) -> dict[str, str]:
    """Write predictions, texts and a recipe; return their names."""
    chance = random.Random(0)
    for name in ("valid", "test"):
        with (work / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["label", "logits_0", "logits_1", "logits_2"])
            for _ in range(600):
                label = chance.randrange(3)
                scores = [3 * chance.gauss(1.5 * (k == label), 1) for k in range(3)]
                rows.writerow([label, *(f"{score:.4f}" for score in scores)])
    (work / "text.txt").write_text("Rosa Lind moved to Paris .\nParis was cold .\n")
    recipe = '[defaults]\ndata = "synthetic"\nmodel = "tiny"\nepochs = 1\n'
    (work / "recipe.toml").write_text(f'{recipe}[[grid]]\nmethod = ["cross_entropy", "focal"]\n')
    return {
        "valid": "valid.csv",
        "test": "test.csv",
        "text": "text.txt",
        "recipe": "recipe.toml",
        "sentence": "Rosa",
    }


def call(words: list[object]) -> None:
    """Run a program whose failure ends the script."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    if "list" in words:
        print(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
