"""The live page: what it shows is what the learner knows, it writes nothing, and it follows runs in a browser."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import safespot as ss
from safespot.experiments import Store
from safespot.experiments.locks import Claims
from safespot.report.server import Server, Watched, serve
from safespot.storage import journal
from tests.support.browsing import Tab
from tests.support.sweeping import sweep_inline, tiny

LIVE = "html[data-live=true] main > *"


class Played:
    """A durable learner that is at work on a limit that is easily kept, so that something is certified soon."""

    def __init__(self, folder: Path) -> None:
        model = ss.CMDP([[[1.0], [1.0]]], [[0.2, 0.8]], [[[0.9, 0.8]]], [0.4], horizon=4)
        self.problem, self.noise = ss.Problem(model), ss.streams(0)
        self.learner = ss.open(folder, ss.SpotEpochs(**self.problem.interface))

    def go_on(self, episodes: int) -> None:
        for _ in range(episodes):
            episode = ss.play(self.problem, self.learner.policy, self.noise, self.learner.episode)
            self.learner.observe(episode)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    monkeypatch.setattr(journal, "RECORDS", 50)  # snapshots and new journals come often
    made = Played(tmp_path / "line-3")
    yield made
    made.learner.close()


@pytest.fixture
def server(played: Played) -> Iterator[Server]:
    with Serving(played.learner.folder) as made:
        yield made


class Serving:
    """A server of the live page that answers in a thread."""

    def __init__(self, place: Path) -> None:
        self.context = serve(Watched(place))

    def __enter__(self) -> Server:
        self.server = self.context.__enter__()
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.05])
        self.thread.start()
        return self.server

    def __exit__(self, *problem: Any) -> None:
        self.server.shutdown()
        self.thread.join()
        self.context.__exit__(*problem)


def states(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# --- Who looks on knows what the learner knows


def test_the_document_says_what_the_learner_knows(played: Played) -> None:
    played.go_on(200)
    found = json.loads(json.dumps(Watched(played.learner.folder).document(), allow_nan=False))
    learner, meter = played.learner.learner, played.learner.meter
    assert isinstance(learner, ss.SpotEpochs)
    assert found["episodes"] == 200
    assert found["confidence"] == pytest.approx(0.95)
    (limit,) = found["limits"]
    assert limit["bounds"] == [float(end[0]) for end in learner.threshold_bounds]
    assert limit["violation"] == pytest.approx([float(end[0]) for end in meter.violation_bounds])
    assert [part["first"] for part in found["epochs"]] == [p.first for p in learner.history]
    assert found["epochs"][-1]["last"] == 200
    assert [one["episode"] for one in found["certificates"]] == [
        each.episode for each in learner.certificates
    ]
    assert found["certificates"]
    assert f"after episode {learner.certificates[0].episode}" in found["said"][-1]
    assert found["curve"][-1]["upper_0"] == pytest.approx(limit["violation"][1])


def test_a_guard_shows_its_budget_and_what_it_guards(tmp_path: Path) -> None:
    problem, noise = ss.problems.make("machine"), ss.streams(0)
    guard = ss.Guard(ss.SpotEpochs(**problem.interface), ss.slater(problem.cmdp).policy, budget=40)
    with ss.open(tmp_path / "guarded", guard) as learner:
        for t in range(1, 31):
            learner.observe(ss.play(problem, learner.policy, noise, t))
    found = Watched(tmp_path / "guarded").document()
    (limit,) = found["budget"]["limits"]
    assert limit["budget"] == 40
    assert limit["spent"][0] <= limit["spent"][1] <= 40
    assert limit["name"] == problem.interface["limit_names"][0] == found["limits"][0]["name"]
    assert found["epochs"][0]["kind"] == "first"


def test_looking_on_changes_no_file(played: Played) -> None:
    played.go_on(60)
    before = states(played.learner.folder)
    watched = Watched(played.learner.folder)
    watched.document()
    assert states(played.learner.folder) == before
    played.go_on(1)  # nor does it take the lock


def test_a_store_is_told_as_far_as_it_is(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store")
    watched = Watched(store.path)
    assert watched.document()["said"] == ["0 runs finished; nobody is at work."]
    assert watched.report() is None
    sweep_inline(store.path, tiny()[:1])
    (store.claims / "killed").touch()  # as a process leaves it that was killed
    (store.claims / "killed-too").touch()
    mine = Claims(store.claims)
    assert mine.take("running")
    found = watched.document()
    assert found["said"] == [
        "1 run finished, 1 at work.", "2 were begun and left; the same command resumes.",
    ]  # fmt: skip
    mine.release("running")
    for name in ("killed", "killed-too"):
        (store.claims / name).unlink()
    found = watched.document()
    assert found["said"] == ["1 run finished; nobody is at work."]
    (study,) = found["studies"]
    assert {len(row) for row in study["table"]["rows"]} == {len(study["table"]["heads"])}
    assert "Regret and violation" in (watched.report() or "")


def asked(address: str) -> tuple[int, str]:
    """The status and the text of an answer."""
    try:
        with urllib.request.urlopen(address) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode()


@pytest.mark.parametrize("what", ["store", "learner"])
def test_a_folder_that_was_removed_is_told_and_may_come_back(what: str, tmp_path: Path) -> None:
    folder, moved = tmp_path / "it", tmp_path / "moved"
    if what == "store":
        sweep_inline(folder, tiny()[:1])
    else:
        ss.open(folder, ss.SpotEpochs(**ss.problems.make("machine").interface)).close()
    watched = Watched(folder)
    with Serving(folder) as server:
        for _ in range(2):
            before = asked(server.address + "state.json")
            assert before[0] == 200
            folder.rename(moved)
            with pytest.raises(ss.errors.InvalidFile, match="removed or renamed"):
                watched.document()
            for name in ("state.json", "report.html"):
                status, text = asked(server.address + name)
                assert (status, str(folder) in text) == ((503, True))
            assert asked(server.address)[0] == 200  # the page itself, which says so
            moved.rename(folder)
            assert asked(server.address + "state.json") == before


# --- The server


def test_it_answers_to_this_machine_alone(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with urllib.request.urlopen(server.address + "state.json") as answer:
        assert json.loads(answer.read())["kind"] == "learner"
    for address, host, status in (
        (server.address, "evil.example:80", 403),
        (server.address + "report.html", None, 404),
        (server.address + "../identity", None, 404),
        (server.address + "snapshot-000000000000.safetensors", None, 404),
    ):
        request = urllib.request.Request(address, headers={"Host": host} if host else {})
        with pytest.raises(urllib.error.HTTPError) as problem:
            urllib.request.urlopen(request)
        problem.value.close()
        assert problem.value.code == status
    request = urllib.request.Request(server.address + "state.json", data=b"{}", method="POST")
    with pytest.raises(urllib.error.HTTPError) as problem:
        urllib.request.urlopen(request)
    problem.value.close()
    assert problem.value.code == 501
    with (
        pytest.raises(ss.errors.InvalidFile, match="cannot listen"),
        serve(server.watched, int(server.server_address[1])),
    ):
        pass


def test_a_client_that_asks_for_nothing_does_not_keep_it_from_ending(played: Played) -> None:
    waited = threading.Event()  # for longer than it should

    def leave() -> None:
        waited.set()
        silent.close()

    with Serving(played.learner.folder) as server:
        silent = socket.create_connection(("127.0.0.1", server.server_address[1]))
        late = threading.Timer(5.0, leave)
        with urllib.request.urlopen(server.address):  # by then the silent one has been heard
            late.start()
    late.cancel()
    silent.close()
    assert not waited.is_set()


# --- In a browser


def test_the_page_follows_a_learner(played: Played, server: Server, browser: Any) -> None:
    played.go_on(10)
    tab = Tab(browser, server.address, LIVE)
    tab.page.wait_for_selector("[data-chart=epochs] svg")
    assert "10 episodes." in tab.page.locator(".verdict").inner_text()
    before = tab.marks("meter-0")
    assert len(before) > 2
    played.go_on(190)
    tab.page.wait_for_function("document.querySelector('.verdict').textContent.startsWith('200 ')")
    tab.page.wait_for_selector("text=/certified first after episode/")
    tab.page.wait_for_timeout(300)
    assert tab.marks("meter-0") != before
    assert "✓" in tab.marks("epochs", "svg text")
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.wrong == []
    tab.context.close()


def test_the_page_follows_a_sweep(tmp_path: Path, browser: Any) -> None:
    store, runs = Store.create(tmp_path / "store"), tiny()
    with Serving(store.path) as server:
        tab = Tab(browser, server.address, LIVE)
        assert "0 runs finished" in tab.page.locator(".verdict").inner_text()
        for k in (1, 4):
            sweep_inline(store.path, runs[:k])
            tab.page.wait_for_selector(f"text=/^{k} runs? finished/")
        assert tab.page.locator("tbody tr").count() == 2
        tab.page.locator("a[href='report.html']").click()
        tab.page.wait_for_selector("html[data-drawn]")
        assert tab.wrong == []
        tab.context.close()


def test_the_page_says_so_when_nobody_answers(played: Played, browser: Any) -> None:
    with Serving(played.learner.folder) as server:
        tab = Tab(browser, server.address, LIVE)
    tab.page.wait_for_selector("html[data-live=false]")
    assert "no answer" in tab.page.locator("#state").inner_text()
    tab.context.close()
