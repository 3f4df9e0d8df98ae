"""The Slurm recipe of docs/cluster.md as it stands there, on a cluster of one node, with a worker killed on the way."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import safespot as ss

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")
SWEEP = """
episodes = 3_000_000
seeds = 4
problem = { name = "random", options = { states = 3, actions = 2, horizon = 3, seed = 1 } }
[[learners]]
name = "spot"
options = { rho = 3.0, bonus_scale = 0.01 }
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in DAEMONS),
        reason="needs Slurm and munge: apt-get install slurm-wlm munge",
    ),
]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A controller and one node, this machine, for the user who runs the tests."""
    pytest.importorskip("distributed")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin")
    folder = Path("/tmp", f"slurm-{secrets.token_hex(4)}")  # a socket's path is short
    folder.mkdir(mode=0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "key").write_bytes(secrets.token_bytes(1024))
    (folder / "key").chmod(0o400)
    files = {
        "key-file": "key",
        "socket": "socket",
        "pid-file": "pid",
        "log-file": "log",
        "seed-file": "seed",
    }
    auth = [f"--{option}={folder / name}" for option, name in files.items()]
    host = socket.gethostname().partition(".")[0]
    config = folder / "slurm.conf"
    config.write_text(configuration(folder, host))
    monkeypatch.setenv("SLURM_CONF", str(config))
    with contextlib.ExitStack() as daemons:
        daemons.callback(shutil.rmtree, folder, ignore_errors=True)
        daemons.enter_context(running("munged", "--foreground", "--force", *auth))
        until(lambda: (folder / "socket").exists())
        daemons.enter_context(running("slurmctld", "-D", "-f", str(config)))
        daemons.enter_context(running("slurmd", "-D", "-f", str(config), "-N", host))
        until(lambda: "idle" in told("sinfo", "--noheader"))
        yield


def configuration(folder: Path, host: str) -> str:
    return f"""
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser={told("id", "-un").strip()}
SlurmdUser={told("id", "-un").strip()}
SlurmctldPort=36817
SlurmdPort=36818
AuthInfo=socket={folder}/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} RealMemory=2000
PartitionName=all Nodes={host} Default=YES
"""


@contextlib.contextmanager
def running(*command: str) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def told(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def until(holds: Callable[[], Any], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "the cluster does not come to it"
        time.sleep(0.2)


def recipe(tasks: int) -> str:
    """The script of the page, for so many tasks and the environment that runs the tests."""
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"## Slurm\n.*?```sh\n(.*?)```", page, re.DOTALL)
    changes = {"--ntasks=128": f"--ntasks={tasks}", "source .venv/bin/activate\n": ""}
    for found, wanted in changes.items():
        assert found in script
        script = script.replace(found, wanted)
    return str(script)


def workers() -> list[Any]:
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if any(word.endswith("dask") for word in words) and "worker" in words:
                found.append(process)
    return [process for process in found if "srun" not in process.name()]


def results(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (store / "runs").glob("*.parquet")}


def test_the_recipe_runs_and_survives_a_killed_worker(cluster: None, tmp_path: Path) -> None:
    (tmp_path / "big.toml").write_text(SWEEP)
    (tmp_path / "job.sh").write_text(recipe(tasks=2))
    job = subprocess.check_output(
        ["sbatch", "--parsable", "job.sh"], cwd=tmp_path, text=True
    ).strip()
    until(lambda: results(tmp_path / "big"), seconds=600)  # the first one compiles the kernels
    workers()[0].kill()
    assert len(results(tmp_path / "big")) < 4  # there was work left
    until(lambda: told("squeue", "--noheader", "--job", job).strip() == "", seconds=600)
    said = (tmp_path / f"slurm-{job}.out").read_text()
    assert "ExitCode=0:0" in told("scontrol", "show", "job", job), said
    here = ss.experiments.sweep(
        tmp_path / "big.toml", tmp_path / "local", workers=1, progress=False
    )
    assert not here.failed
    assert results(tmp_path / "big") == results(tmp_path / "local")
