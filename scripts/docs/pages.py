"""Stage the pages of the repository as one tree, with links that hold there.

``docs/index.md`` is the navigation: each of its sections becomes a page, and each link of a section
an entry. The pages of a folder belong to the page of the same name, which links each of them
(``findings/*.md`` to ``findings.md``). A page that is in no section is an error.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/calibrant/calibrant"
LINK = re.compile(r"(?<!\!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^()\s]+)\)")
# Pages outside docs/, and where the site has them.
ELSEWHERE = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    "benchmarks/README.md": "project/benchmarks.md",
}
SAME = {"README.md": "index.md", "docs/decisions": "decisions.md", "docs": "index.md"}


def staged_pages() -> dict[str, str]:
    """Return for each page its path in the repository and in the site."""
    own = {
        f"docs/{p.relative_to(DOCS).as_posix()}": p.relative_to(DOCS) for p in DOCS.rglob("*.md")
    }
    return {path: place.as_posix() for path, place in own.items()} | ELSEWHERE


def sections() -> dict[str, list[str]]:
    """Return the sections of ``docs/index.md`` with the repository paths that they link."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^## ", (DOCS / "index.md").read_text("utf-8"), flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        links = re.findall(r"^- \[[^\]]+\]\(([^)#]+)\)", text, re.MULTILINE)
        found[title] = [repository_path("docs/index.md", link) for link in links]
    return found


def parts_of(page: str) -> list[str]:
    """Return the pages in the folder of a page's name, in the order of its links.

    >>> parts_of("docs/findings.md")[0]
    'docs/findings/entities.md'
    """
    folder = page.removesuffix(".md") + "/"
    links = (
        repository_path(page, link) for _, link in LINK.findall((ROOT / page).read_text("utf-8"))
    )
    targets = (link.partition("#")[0] for link in links)
    return list(dict.fromkeys(target for target in targets if target.startswith(folder)))


def repository_path(page: str, link: str) -> str:
    """Return the path in the repository that a relative link of a page leads to.

    >>> repository_path("docs/decisions/a.md", "../../README.md")
    'README.md'
    """
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def broken_links() -> Iterator[str]:
    """Yield links to files that do not exist and to headings that their page lacks."""
    for page in staged_pages() | {"README.md": ""}:
        text = without_code((ROOT / page).read_text("utf-8"))
        for _, link in [*LINK.findall(text), *IMAGE.findall(text)]:
            if "://" in link or link.startswith("mailto:"):
                continue
            path, _, anchor = link.partition("#")
            target = repository_path(page, path) if path else page
            if not (ROOT / target).exists():
                yield f"{page}: {link}"
            elif anchor and target.endswith(".md") and anchor not in anchors(ROOT / target):
                yield f"{page}: {link} (no such heading)"


def anchors(page: Path) -> set[str]:
    """Return the names of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page.read_text("utf-8")), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


def without_code(text: str) -> str:
    """Return a page without its code blocks and inline code."""
    text = re.sub(r"^(`{3,}).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]+`", "code", text)


def stage(source: Path, reference: Sequence[str]) -> None:
    """Write all pages to ``source``; ``reference`` are the pages that are already there."""
    if problems := sorted(broken_links()):
        raise SystemExit("Broken links:\n" + "\n".join(problems))
    pages = staged_pages()
    for page, place in pages.items():
        text = (ROOT / page).read_text("utf-8").replace("\n```csv\n", "\n```text\n")
        write(source / place, with_site_links(text, page, place, pages))
    shutil.copytree(DOCS / "images", source / "images", dirs_exist_ok=True)
    write(source / "decisions.md", decisions(pages))
    for page, place in pages.items():
        if parts := [
            posixpath.relpath(pages[part], posixpath.dirname(place) or ".")
            for part in parts_of(page)
        ]:
            with (source / place).open("a", encoding="utf-8") as file:
                file.write(f"\n{toctree(parts)}")
    write_navigation(source, pages, reference)


def write(path: Path, text: str) -> None:
    """Write a page and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def with_site_links(text: str, page: str, place: str, pages: Mapping[str, str]) -> str:
    """Return a page with the links that hold in the site; other files are in the repository."""

    def changed(found: re.Match[str]) -> str:
        link = found.group(2)
        if "://" in link or link.startswith(("#", "mailto:")):
            return found.group(0)
        path, mark, anchor = link.partition("#")
        target = repository_path(page, path)
        here = (pages | SAME).get(target)
        if here is None:
            return f"[{found.group(1)}]({REPOSITORY}/blob/main/{target}{mark}{anchor})"
        if target in SAME:
            mark = anchor = ""
        relative = posixpath.relpath(here, posixpath.dirname(place) or ".")
        return f"[{found.group(1)}]({relative}{mark}{anchor})"

    return outside_code(text, lambda part: LINK.sub(changed, part))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply a change to everything except code blocks."""
    blocks = re.split(r"(^`{3,}[^\n]*\n.*?^`{3,} *$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(block if block.startswith("```") else change(block) for block in blocks)


def decisions(pages: Mapping[str, str]) -> str:
    """Return the page that lists all decisions."""
    listed = sorted(place for place in pages.values() if place.startswith("decisions/"))
    toc = "\n".join(place.removesuffix(".md") for place in listed)
    intro = "# Decisions\n\nChoices that could have gone another way, each with its reasons.\n\n"
    return f"{intro}```{{toctree}}\n{toc}\n```\n"


def write_navigation(source: Path, pages: Mapping[str, str], reference: Sequence[str]) -> None:
    """Add the tables of contents: one page per section, and all sections in the index."""
    text = (source / "index.md").read_text("utf-8")
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    names = []
    for part, (title, targets) in zip(parts[1:], sections().items(), strict=True):
        name = f"{title.lower().replace(' ', '-')}.md"
        entries = [(pages | SAME)[target] for target in targets]
        if len(entries) == 1:
            names += entries
            continue
        entries += [f"reference/{page}" for page in reference] if title == "Reference" else []
        body = part.partition("\n")[2].strip()
        contents = toctree(entries, hidden=title != "Reference")
        write(source / name, f"# {title}\n\n{body}\n\n{contents}")
        names.append(name)
    write(source / "index.md", f"{text}\n\n{toctree(names)}")


def toctree(entries: Sequence[str], *, hidden: bool = True) -> str:
    """Return Sphinx's table of contents."""
    options = ":hidden:\n" if hidden else ":maxdepth: 1\n"
    return f"```{{toctree}}\n{options}\n" + "\n".join(entries) + "\n```\n"
