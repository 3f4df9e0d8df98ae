"""The page of `safespot verify` in a browser."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from safespot.report.page import document
from safespot.verification import page
from safespot.verification.verdicts import Outcome, Verdict
from tests.support.browsing import browser  # noqa: F401

CLAIM = SimpleNamespace(
    name="meter", title="What was played is evidence, at every recorded episode of every run"
)
VERDICTS = tuple(
    Verdict(f"The bounds number {k} hold at every episode, in at least 95 % of the runs.", outcome, "", "")
    for k, outcome in enumerate(Outcome)
)  # fmt: skip
MADE: Any = SimpleNamespace(judged=[(CLAIM, SimpleNamespace(verdicts=VERDICTS))])


@pytest.mark.parametrize("width", [390, 800, 1400])
def test_every_verdict_can_be_read_without_scrolling_sideways(
    browser: Any,  # noqa: F811
    tmp_path: Path,
    width: int,
) -> None:
    """Claim, statement and outcome lie within the window; a claim is named once, above its first statement."""
    path = tmp_path / "page.html"
    path.write_text(document("t", f"<body>{page._summary(MADE)}", more_style=page.STYLE), "utf-8")
    opened = browser.new_page(viewport={"width": width, "height": 900})
    opened.goto(path.as_uri())
    boxes = opened.locator(".summary tbody :is(th:not(:empty), td, .outcome)").evaluate_all(
        "all => all.map(one => { const b = one.getBoundingClientRect(); return [b.left, b.right, b.width]; })"
    )
    opened.close()
    assert len(boxes) == 1 + 3 * len(Outcome)
    for left, right, wide in boxes:
        assert 0 <= left < right <= width
        assert wide >= 60
