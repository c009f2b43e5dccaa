# SPDX-License-Identifier: Apache-2.0
"""Links of the pages lead somewhere, every page is in the site's menu, and README stays short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / n for n in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def plain(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def anchors(page):
    """As GitHub and MkDocs make them of headings: letters, digits, dashes."""
    found = set()
    for title in re.findall(r"^#+ (.*)$", plain(page.read_text()), re.M):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")
        found |= {slug, re.sub(r"-+", "-", slug)}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links(page):
    wrong = []
    for target in LINK.findall(re.sub(r"`[^`]*`", "", plain(page.read_text()))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        if not to.exists() or (anchor and to.suffix == ".md" and anchor not in anchors(to)):
            wrong.append(target)
    assert not wrong


def test_the_menu_has_every_page():
    menu = set(re.findall(r": ([\w/\-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    made = {"api/c.md", "api/python.md", "api/cli.md", "comparisons.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    pages = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    assert menu - made == pages


def test_the_index_leads_to_every_how_to():
    linked = set(LINK.findall((ROOT / "docs/index.md").read_text()))
    menu = (ROOT / "mkdocs.yml").read_text().split("- How to:")[1].split("- Reference:")[0]
    assert set(re.findall(r": ([\w/\-]+\.md)$", menu, re.M)) <= linked


def test_readme_is_three_screens():
    assert len((ROOT / "README.md").read_text().split()) <= 900


def test_every_example_has_a_line():
    listed = re.findall(r"^\| \[`([^`]+)`\]\(\.\./examples/\1\) \| .+ \|$", (ROOT / "docs/examples.md").read_text(), re.M)
    assert sorted(listed) == sorted(p.name for p in (ROOT / "examples").iterdir() if p.is_file())


def test_the_changelog_begins_with_this_version():
    version = re.search(r'STK_VERSION "([^"]+)"', (ROOT / "include/stoker/base.h").read_text())[1]
    sections = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert sections[0][0] == version and [date for _, date in sections] == sorted((date for _, date in sections), reverse=True)
    assert len(sections) == len(re.findall(r"^## ", (ROOT / "CHANGELOG.md").read_text(), re.M))
