"""The example clients against a service on a socket."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import safespot as ss
from tests.reliability.service_load import answers, free_port, served

CLIENTS = Path(__file__).parents[2] / "examples" / "service"


@contextlib.contextmanager
def service_at(folder: Path) -> Iterator[str]:
    """The address of a folder's service, which must end well."""
    port = free_port()
    process = served(folder, port)
    try:
        asyncio.run(answers(port, process))
        yield f"http://127.0.0.1:{port}"
    finally:  # also where a client fails: it would be served for ever
        process.send_signal(signal.SIGTERM)
        _, wrong = process.communicate(timeout=60)
    assert process.returncode == 0, wrong


def said_by(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_both_clients_treat_patients(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    ward = ss.Uniform(
        states=4, actions=3, horizon=6, constraints=1, start=3, senses="<=", episodes=1000
    )
    ss.open(folder, ward).close()
    shell = shutil.which("curl") is not None
    with service_at(folder) as address:
        said = said_by(sys.executable, str(CLIENTS / "client.py"), address, "--patients", "3")
        assert said.startswith("3 patients, ")
        if shell:
            assert '"status":"ended"' in said_by("sh", str(CLIENTS / "client.sh"), address)
    with ss.open(folder) as learner:
        assert learner.episode == 4 + shell


def test_the_patients_of_clinic_are_treated(tmp_path: Path) -> None:
    folder, clinic = tmp_path / "ward-7", str(CLIENTS / "clinic.py")
    said_by(sys.executable, clinic, "make", str(folder))
    with service_at(folder) as address:
        said = said_by(sys.executable, clinic, "treat", address, "--patients", "5")
        assert re.fullmatch(
            r"5 patients; patients bear \d+\.\d\d to \d+\.\d\d doses; nothing is certified yet\n",
            said,
        )
    with ss.open(folder) as learner:
        assert learner.episode == 6
