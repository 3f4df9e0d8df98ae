"""schemathesis against a decision service: cases made of its OpenAPI, right and twisted, none of which may fail.

    python -m tests.reliability.service_schema [--examples 1000] [--seed 0] [--schemathesis PATH]

schemathesis is no dependency of the project (its own are many): install it anywhere and give its path. Episodes that
were begun are linked to the requests that go on with them, so that cases get further than "no such episode".
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import safespot as ss
from tests.reliability.service_load import answers, free_port, served, service_counts

# That the answers are what the document says is looked at as well; which requests must be refused is not for a
# schema to say, since most are refused for what was said before.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


class Found(NamedTuple):
    """What came of it."""

    cases: int
    answered: dict[str, int]  # requests that change something, by route and status
    said: str
    failed: bool


def attack(folder: Path, examples: int, program: str, seed: int = 0) -> Found:
    """Serve a learner in a new folder, and let schemathesis loose on it."""
    learner = ss.Uniform(states=4, actions=3, horizon=1, constraints=1, episodes=10**6)
    ss.open(folder, learner).close()
    port = free_port()
    process = served(folder, port, "--most-open", "100000")
    asyncio.run(answers(port, process))
    command = [
        program, "run", f"http://127.0.0.1:{port}/openapi.json", "--checks", ",".join(CHECKS),
        "--max-examples", str(examples), "--continue-on-failure", "--no-color", "--seed", str(seed),
        "--suppress-health-check", "all", "--generation-database", "none",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    counts = service_counts(port)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    with ss.open(folder):  # what is left can be opened
        pass
    cases = re.search(r"([\d,]+) generated", done.stdout)
    answered = {
        f"{found[1]} {found[2]}": int(count)
        for name, count in counts.items()
        if (found := re.fullmatch(r'safespot_requests_total{route="(\w+)",status="(\d+)"}', name))
    }
    worst = any(name.split()[1][0] == "5" for name in answered)
    return Found(
        int(cases[1].replace(",", "")) if cases else 0, answered, done.stdout + done.stderr,
        worst or done.returncode != 0 or process.returncode != 0,
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="schemathesis against a decision service.")
    parser.add_argument("--examples", type=int, default=1000, help="of each request and phase")
    parser.add_argument("--schemathesis", default=shutil.which("schemathesis"))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = attack(Path(name, "it"), given.examples, given.schemathesis, given.seed)
    print(found.said[-6000:])
    print(f"{found.cases:,} cases; {found.answered}")
    raise SystemExit(found.failed)
