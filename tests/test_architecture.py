"""Imports point one way, as docs/architecture.md draws it."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import calibrant
from calibrant.tasks import TASKS

SOURCE = Path(calibrant.__file__).parent

# What everybody may import.
FOUNDATION = {
    "arguments", "arrays", "claim_inputs", "claims", "conversion", "distributions", "encoding",
    "errors", "extras", "html_tables", "inputs", "joining", "json_values", "labels", "old_names",
    "output_checks", "outputs", "predictions", "progress", "resumable", "unfinished",
    "validation", "",
}  # fmt: skip
# Part → the further parts that it may import.
ALLOWED = {
    "predictions": {"files"},
    "files": set(),
    "metrics": set(),
    "calibrators": {"metrics"},
    "policies": {"metrics"},
    "comparison": {"metrics", "calibrators", "policies"},
    "audit": {"auditing"},
    "prediction": set(),
    "auditing": {"metrics"},
    "charts": {"metrics"},
    "plots": {"metrics", "charts"},
    "report": {"metrics", "charts", "auditing", "watching"},
    "adapting": {"metrics", "charts", "calibrators", "comparison", "watching"},
    "watching": {"files", "metrics", "charts", "calibrators", "comparison"},
    "losses": set(),
    "methods": {"losses"},
    "training": {"losses", "methods"},
    "corruptions": set(),
    "tasks": {
        "adapting",
        "metrics",
        "calibrators",
        "comparison",
        "corruptions",
        "files",
        "methods",
        "policies",
        "training",
    },
    "loading": {"calibrators", "comparison", "policies", "tasks"},
    "wrapping": {"experiments", "loading", "tasks"},
    "serving": {"policies", "tasks"},
    "reviewing": {"entities", "files", "serving", "tasks"},
    "export": {
        "calibrators",
        "experiments",
        "metrics",
        "policies",
        "loading",
        "tasks",
        "training",
    },
    "distributed": {
        "auditing",
        "calibrators",
        "comparison",
        "files",
        "loading",
        "metrics",
        "policies",
        "tasks",
    },
    "experiments": {
        "adapting",
        "distributed",
        "metrics",
        "corruptions",
        "calibrators",
        "comparison",
        "auditing",
        "report",
        "methods",
        "policies",
        "training",
        "tasks",
    },
    "study": {"metrics", "charts", "plots", "report", "experiments"},
    "demo": set(),
    "entities": {"metrics", "calibrators", "comparison", "policies", "auditing", "files"},
    "integrations": {"metrics", "entities"},
}
OLD = {"audit", "prediction"}  # Old names of parts, for one release.
SEES_ALL = {"__init__", "__main__", "cli"}

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
MODULES = sorted(SOURCE.rglob("*.py"))


def part_of(module):
    return module.removeprefix("calibrant").removeprefix(".").split(".")[0]


def imports(node):
    """Return the modules imported below ``node``, except those only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield child.module
        yield from imports(child)


def test_imports_point_one_way():
    wrong = []
    for path in MODULES:
        part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if part in SEES_ALL:
            continue
        allowed = FOUNDATION | ALLOWED.get(part, set()) | {part}
        for module in imports(ast.parse(path.read_text())):
            if module.split(".")[0] == "calibrant" and part_of(module) not in allowed:
                wrong.append(f"{path.relative_to(SOURCE)} imports {module}")
    assert not wrong


def parts_of_the_page():
    """Return the parts in the order of the table of layers."""
    rows = re.findall(r"^\| [\w ]*\| (`[^|]*) \|", PAGE, re.MULTILINE)
    return [part for row in rows for part in re.findall(r"`(\w+)(?:/|\.py)`", row)]


def test_a_part_imports_only_parts_above_it():
    """The order of the table in docs/architecture.md is the rule, apart from the foundation."""
    parts = parts_of_the_page()
    above = {part: FOUNDATION | set(parts[:place]) for place, part in enumerate(parts)}
    wrong = {
        part: ALLOWED[part] - above[part]
        for part in parts
        if part not in FOUNDATION | OLD | SEES_ALL
    }
    assert not any(wrong.values()), wrong


@pytest.mark.parametrize("page", ["architecture", "extending"])
def test_every_file_that_a_page_names_is_there(page):
    """A path begins in the package, in the repository, or in the part that its section is about."""
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    named = set(re.findall(r"`((?:\w+/)*\w+(?:\.py|/))`", text))
    missing = [n for n in named if not ((SOURCE / n).exists() or (ROOT / n).exists())]
    assert [name for name in missing if not any(SOURCE.glob(f"*/{name}"))] == []


def test_accelerators_have_one_door():
    """The table of docs/extending.md says which modules import them."""
    text = (ROOT / "docs" / "extending.md").read_text("utf-8")
    rows = re.findall(r"^\| `((?:\w+/)+)` \|.*\| ([^|]*) \|$", text, re.MULTILINE)
    assert len(rows) == 3
    for folder, doors in rows:
        dotted = "calibrant." + folder.strip("/").replace("/", ".")
        inside, users = SOURCE / folder, set()
        for path in MODULES:
            code = re.sub(r'""".*?"""', "", path.read_text(), flags=re.DOTALL)
            if re.search(rf"{re.escape(dotted)}\b", code) and inside not in path.parents:
                users.add(str(path.relative_to(SOURCE)))
        assert users == set(re.findall(r"`([^`]*)`", doors))


def test_the_page_takes_five_minutes():
    assert len(PAGE.replace("|", " ").split()) <= 1100


def test_no_task_is_known_by_name():
    """Outside ``tasks/`` no code compares the name of a task: it queries the object."""
    wrong = []
    for path in MODULES:
        if path.relative_to(SOURCE).parts[0] == "tasks":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and any(
                isinstance(part, ast.Constant) and part.value in TASKS and _is_task(node)
                for side in (node.left, *node.comparators)
                for part in ast.walk(side)
            ):
                wrong.append(f"{path.relative_to(SOURCE)}, line {node.lineno}")
    assert not wrong


def _is_task(comparison):
    """Whether something called task, or an attribute of that name, is compared."""
    names = {getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(comparison)}
    constants = {node.value for node in ast.walk(comparison) if isinstance(node, ast.Constant)}
    return "task" in names | constants


def test_the_table_of_tasks_loads_numpy_alone():
    script = (
        "import sys; from calibrant.tasks import all_tasks; all_tasks(); "
        "print(*{m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    loaded = {name for name in done.stdout.split() if not name.startswith("_")}
    assert loaded == {"calibrant", "numpy"}, done.stderr


def test_the_page_has_every_part():
    modules = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py", "_version.py"}
    folders = {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")}
    assert sorted(name for name in modules | folders if f"`{name}`" not in PAGE) == []


def test_every_module_says_what_it_is_for():
    silent = [path for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert not silent


def test_the_public_names_are_there():
    assert len(calibrant.__all__) <= 55
    for name in calibrant.__all__:
        assert hasattr(calibrant, name)
