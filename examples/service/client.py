"""A client of `safespot serve` in plain Python, without safespot: the standard library alone.

    python examples/service/client.py http://127.0.0.1:8000 --patients 200 [--token TOKEN]

One patient after the other: begin an episode, ask for a dose at every block, say what came of it, end. A request may
be repeated until it is answered, so a service that restarts in between costs nothing but time. What is treated here is
a stand-in for your own process: four states of health, three doses, six blocks.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import time
from typing import Any
from urllib.parse import urlsplit

WORST, DOSES = 3, (0.0, 0.3, 0.8)  # the state that patients come in, how badly each dose is borne


class Service:
    """The service, asked until it answers, over one connection that is opened again when it is gone."""

    def __init__(self, address: str, token: str = "") -> None:
        self.connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def post(self, path: str, body: Any = None, key: str = "") -> Any:
        """Send JSON; every request may be repeated, so that an answer that was lost costs nothing."""
        return self.ask(
            "POST", path, json.dumps(body or {}), {"Idempotency-Key": key} if key else {}
        )

    def get(self, path: str) -> Any:
        """What there is to read."""
        return self.ask("GET", path, None, {})

    def ask(self, method: str, path: str, body: str | None, more: dict[str, str]) -> Any:
        """The answer; again where there is none, and an error that says why where it is a refusal."""
        while True:
            try:
                self.connection.request(method, path, body, self.headers | more)
                answer = self.connection.getresponse()
                said = answer.read()
            except (OSError, http.client.HTTPException):  # it restarts, or the network is down
                self.connection.close()
            else:
                if answer.status < 400:
                    return json.loads(said)
                if answer.status not in (429, 503):
                    raise SystemExit(f"{path}: {said.decode()}")
            time.sleep(0.5)


def treat(service: Service, patient: str, rng: random.Random) -> float:
    """One patient; how well the treatment went."""
    begun = service.post("/episodes", key=patient)
    path, state, health = f"/episodes/{begun['episode']}", WORST, 0.0
    for step in range(begun["steps"]):
        dose = service.post(f"{path}/decisions", {"step": step, "state": state})["action"]
        state, reward, cost, hint = block(state, dose, rng)
        service.post(
            f"{path}/outcomes",
            {"step": step, "reward": reward, "constraints": [cost], "thresholds": [hint]},
        )
        health += reward
    service.post(f"{path}/end", {"state": state})  # when this returns, it is on the disk
    return health


def block(state: int, dose: int, rng: random.Random) -> tuple[int, float, float, float]:
    """What the world does: the state after, how well, how badly borne, a noisy hint of how much may be borne."""
    better, worse = rng.random() < (0.1, 0.4, 0.7)[dose], rng.random() < 0.2
    after = min(max(state - better + worse, 0), WORST)
    return after, 1.0 - after / WORST, float(rng.random() < DOSES[dose]), float(rng.random() < 0.35)


def main() -> None:
    """Treat some patients."""
    parser = argparse.ArgumentParser(description="Patients for a decision service.")
    parser.add_argument("address", help="such as http://127.0.0.1:8000")
    parser.add_argument("--patients", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--token", default="")
    given = parser.parse_args()
    service = Service(given.address, given.token)
    health = []
    for number in range(given.patients):
        rng = random.Random(f"{given.seed}-{number}")
        health.append(treat(service, f"patient-{given.seed}-{number}", rng))
    print(f"{given.patients} patients, {sum(health) / len(health):.2f} of 6 well on average")


if __name__ == "__main__":
    main()
