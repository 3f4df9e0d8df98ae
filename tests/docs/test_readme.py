"""Every Python example of the README and of every page runs, in order, as a reader would type it.

A block with a title is an excerpt of the file that it names, and must be in it word for word.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from safespot.experiments import as_spec
from tests.support.sweeping import sweep_inline

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if "```python" in path.read_text(encoding="utf-8")
)
BLOCK = re.compile(
    r"^( *)```python(?: title=\"([^\"]+)\")?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """A Python block of a page."""

    title: str | None  # the file it is an excerpt of
    code: str
    line: int  # of the page


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = list(BLOCK.finditer(text))
    assert len(found) == len(re.findall(r"```\s*(?:python|py)\b", text)), "a block is not closed"
    for block in found:
        yield Block(block[2], textwrap.dedent(block[3]), text.count("\n", 0, block.start(3)))


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader sits: the examples, with sweeps that take no time, and a store that is full."""
    folder = tmp_path_factory.mktemp("reader") / "desk"
    for file in (ROOT / "examples").rglob("*.toml"):
        copy = folder / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        fewer = re.sub(r"^episodes = .*$", "episodes = 300", file.read_text(), flags=re.MULTILINE)
        copy.write_text(re.sub(r"^seeds = .*$", "seeds = 2", fewer, flags=re.MULTILINE))
    spot = {"rho": "slater", "bonus_scale": 0.01}
    learners = [{"name": "spot", "options": spot, "grid": {"stance": ["pessimistic", 1.0]}}]
    spec = {"episodes": 300, "seeds": 2, "problem": {"name": "machine"}, "learners": learners}
    sweep_inline(folder / "STORE", as_spec(spec).runs())
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_run(
    page: str, desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(desk, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)  # what an example writes goes there
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.title is None:
            # Blank lines in front make a traceback show the page's own line numbers.
            exec(compile("\n" * block.line + block.code, page, "exec"), names)


def test_the_readme_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The first example is short, has no option but the problem, and its output stands below it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code, output = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)[0]
    assert len([line for line in code.splitlines() if line]) <= 12
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == output


@pytest.mark.parametrize("page", PAGES)
def test_excerpts_are_in_their_files(page: str) -> None:
    for block in blocks(page):
        if block.title is not None:
            source = (ROOT / block.title).read_text(encoding="utf-8")
            assert _bare(block.code) in _bare(source), f"{block.title} has no such lines: {block}"


def _bare(code: str) -> str:
    """The code without its indentation, which an excerpt may lose."""
    return "\n".join(line.strip() for line in code.strip().splitlines())
