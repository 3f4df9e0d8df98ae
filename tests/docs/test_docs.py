"""What the documents name exists."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import safespot as ss

DOCS = Path(__file__).parents[2] / "docs"


def rows(page: str) -> list[list[str]]:
    """The cells of every table row of a page, but for heads and rules."""
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in (DOCS / page).read_text().splitlines()
        if line.startswith("|") and not line.startswith("|---")
    ]


MAP = [row for row in rows("paper-map.md") if row[2] != "code"]


@pytest.mark.parametrize("name", sorted({row[2] for row in MAP}))
def test_code_in_the_map_exists(name: str) -> None:
    match = re.fullmatch(r"`([\w.]+)`", name)
    assert match, name
    root = "studies" if match[1].startswith("studies.") else "safespot"
    parts = match[1].removeprefix("studies.").split(".")
    found: Any = importlib.import_module(root)
    for depth, part in enumerate(parts):
        if part.islower() and not hasattr(found, part):
            found = importlib.import_module(".".join([root, *parts[: depth + 1]]))
        else:
            found = getattr(found, part)
    assert callable(found)


@pytest.mark.parametrize("name", sorted({row[3] for row in MAP}))
def test_tests_in_the_map_exist(name: str) -> None:
    match = re.fullmatch(r"`tests/((?:\w+/)?test_\w+\.py)::(test_\w+)`", name)
    assert match, name
    tree = ast.parse((DOCS.parent / "tests" / match[1]).read_text())
    assert match[2] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_deviation_is_explained_and_mapped() -> None:
    numbers = [f"D{k}" for k in range(1, 9)]
    text = (DOCS / "deviations.md").read_text()
    assert re.findall(r"^\*\*(D\d)\.", text, re.M) == numbers
    assert [row[0] for row in MAP if re.fullmatch(r"D\d", row[0])] == numbers


TEXTS = [*sorted(DOCS.rglob("*.md")), *sorted(DOCS.parent.glob("*.md"))]


@pytest.mark.parametrize("page", TEXTS, ids=lambda path: str(path.relative_to(DOCS.parent)))
def test_links_lead_somewhere(page: Path) -> None:
    text = _without_code(page.read_text(encoding="utf-8"))
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]+))?\)", text):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links to them, on the site and in a repository's view."""
    text = _without_code(page.read_text(encoding="utf-8"))
    titles = [re.sub(r"[`*$]", "", title) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def _without_code(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ss.learners.names())
def test_every_option_of_a_learner_is_documented(name: str) -> None:
    options = ss.learners.find(name).options_type
    said = "\n".join(inspect.getdoc(kind) or "" for kind in options.__mro__ if kind is not object)
    for option in ss.learners.options(name):
        assert re.search(rf"^ +{option}: ", said, re.MULTILINE), option


@pytest.mark.parametrize("name", ss.problems.names())
def test_every_option_of_a_problem_is_documented(name: str) -> None:
    text = (DOCS / "problems.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    if name == "dosing":
        section += (DOCS / "dosing.md").read_text(encoding="utf-8")
    make = importlib.import_module(f"safespot.problems.{name.replace('-', '_')}").make
    for option in inspect.signature(make).parameters:
        assert f"`{option}" in section, option


def test_the_packages_are_listed_in_the_order_of_their_layers() -> None:
    """README and architecture name every package and module, from the lowest of the linter's layers up."""
    contracts = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [layer.split(" | ") for layer in contracts["contracts"][0]["layers"]]
    height = {
        name.removeprefix("safespot."): -k for k, layer in enumerate(layers) for name in layer
    }
    source = Path(importlib.import_module("safespot").__file__ or "").parent
    modules = {path.stem for path in source.glob("[!_]*.py")}
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    assert height.keys() == modules | packages

    table = (DOCS.parent / "README.md").read_text().partition("## What is where")[2]
    rows = re.findall(r"^\| (`.+?) \|", table.partition("\n## ")[0], re.MULTILINE)
    picture = (DOCS / "contributing" / "architecture.md").read_text().split("```")[1]
    for text in (" ".join(rows), picture):
        named = [name for name in re.findall(r"\w+", text) if name in height]
        assert sorted(named) == sorted(height)
        heights = [height[name] for name in named]
        assert heights == sorted(heights)
