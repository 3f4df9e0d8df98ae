"""A client of `safespot serve` in plain Python, without safespot: the standard library alone.

    python examples/service/client.py http://127.0.0.1:8000 --patients 200 [--token TOKEN]

One patient after the other: begin an episode, ask for a dose at every block, say what came of it, end. Requests may
be repeated until it is answered, so a service that restarts in between costs nothing but time. What is treated here is
a stand-in for your own process: four states of health, three doses, six blocks.
"""

from __future__ import annotations

import argparse
import json
import random
import time
import urllib.error
import urllib.request
from typing import Any

WORST, DOSES = 3, (0.0, 0.3, 0.8)  # the state that patients come in, how badly each dose is borne


class Service:
    """The service, asked until it answers."""

    def __init__(self, address: str, token: str = "") -> None:
        self.address, self.token = address.rstrip("/"), token

    def post(self, path: str, body: Any = None, key: str = "") -> Any:
        """Send JSON, and again where there is no answer; a refusal is an error that says why."""
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if key:
            headers["Idempotency-Key"] = key
        data = json.dumps(body or {}).encode()
        request = urllib.request.Request(self.address + path, data, headers, method="POST")
        while True:
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as refused:
                if refused.code not in (429, 503):
                    raise SystemExit(f"{path}: {refused.read().decode()}") from None
            except OSError:
                pass  # it restarts, or the network is down
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
