"""The example clients against a service on a socket."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import safespot as ss
from tests.reliability.service_load import answers, free_port, served
from tests.reliability.service_schema import attack

CLIENTS = Path(__file__).parents[2] / "examples" / "service"


def test_both_clients_treat_patients(tmp_path: Path) -> None:
    folder, port = tmp_path / "it", free_port()
    ward = ss.Uniform(
        states=4, actions=3, horizon=6, constraints=1, start=3, senses="<=", episodes=1000
    )
    ss.open(folder, ward).close()
    process = served(folder, port)
    asyncio.run(answers(port, process))
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, str(CLIENTS / "client.py"), address, "--patients", "3"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith("3 patients, ")
    shell = shutil.which("curl") is not None
    if shell:
        command = ["sh", str(CLIENTS / "client.sh"), address]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert '"status":"ended"' in said
    process.send_signal(signal.SIGTERM)
    _, wrong = process.communicate(timeout=60)
    assert process.returncode == 0, wrong
    with ss.open(folder) as learner:
        assert learner.episode == 4 + shell


@pytest.mark.slow
def test_schemathesis_finds_no_failure(tmp_path: Path) -> None:
    """The OpenAPI's own words, generated and twisted: nothing is answered with a 5xx."""
    program = shutil.which("schemathesis")
    if program is None:
        pytest.skip("schemathesis is not installed")
    found = attack(tmp_path / "it", 100, program)
    assert not found.failed, found.said[-3000:]
    assert found.cases > 1000
