"""The live page of a service, in a real browser, with a token."""

from __future__ import annotations

import contextlib
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import safespot as ss
from safespot.service.tokens import add_token
from tests.reliability.service_load import free_port, served
from tests.support.browsing import Tab
from tests.support.serving import uniform

pytest.importorskip("uvicorn")
LIVE = "html[data-live=true] main > *"


def test_the_page_of_a_service_follows_it(tmp_path: Path, browser: Any) -> None:
    folder, port = tmp_path / "ward-7", free_port()
    with ss.open(folder, uniform(start=0)) as learner:
        for _ in range(5):  # before it is served
            seen: Any = ([0, 0, 0], [0, 0], [0.5, 0.5], [[0.25], [0.25]], [[0.75], [0.75]])
            learner.observe(ss.Episode(*seen))
    token = add_token(folder, "ward", ["decide", "read"])
    address, process = f"http://127.0.0.1:{port}", served(folder, port)
    try:
        wait_for(f"{address}/health")
        tab = Tab(browser, f"{address}/#token={token}", LIVE, width=390)
        assert "0 episodes are open" in tab.page.locator(".verdict").inner_text()
        tab.page.wait_for_selector("[data-chart=meter-0] svg")
        assert len(tab.marks("meter-0")) > 2  # what was there before is drawn
        head = {"Idempotency-Key": "a", "Authorization": f"Bearer {token}"}
        urllib.request.urlopen(
            urllib.request.Request(f"{address}/episodes", b"", head, method="POST")
        ).close()
        tab.page.wait_for_selector("text=/1 episode is open/")
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        foreign = [text for text in tab.wrong if not text.startswith(address)]
        assert (foreign, [text for text in tab.wrong if token in text]) == ([], [])
        tab.context.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


def wait_for(address: str, longest: float = 120.0) -> None:
    """Until something answers; Playwright has a loop of its own running here."""
    begun = time.monotonic()
    while time.monotonic() - begun < longest:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(address).close()
            return
        time.sleep(0.1)
    raise TimeoutError(address)
