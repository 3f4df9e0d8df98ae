"""Every Python example of the README and of the how-to pages runs, in order, as a reader would type it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/gymnasium.md",
        "docs/certificates.md",
        "docs/learners.md",
        "docs/logs.md",
        "docs/own-environment.md",
        "docs/online.md",
    ],
)
def test_the_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert blocks, "the page shows no Python at all"
    assert len(blocks) == len(re.findall(r"```\s*(?:python|py)\b", text)), "a block is not closed"
    monkeypatch.chdir(tmp_path)  # what an example writes goes there
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        # Blank lines in front make a traceback show the page's own line numbers.
        before = "\n" * text.count("\n", 0, block.start(1))
        exec(compile(before + block.group(1), page, "exec"), names)
