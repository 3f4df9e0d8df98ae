"""A decision service that is started as fast as a process can be forked, so that it can be killed often.

    python -m tests.reliability.service_forks FOLDER PORT

reads lines, and serves the folder in a forked process for each. The process's number is printed, and its status when it
has ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import safespot as ss
from safespot.service import ledger
from safespot.service.desk import Settings
from safespot.service.server import serve, warm_up
from tests.reliability.survival import short_journals
from tests.support.processes import python

BYTES = 2**14  # of the ledger's files, so that they turn often


class Forks:
    """Starts services of a folder, one after the other."""

    def __init__(self, folder: Path, port: int) -> None:
        self.process: subprocess.Popen[str] = python(
            "-m", "tests.reliability.service_forks", str(folder), str(port)
        )
        self._line()  # it is ready

    def start(self) -> int:
        """A new service; the number of its process."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self._line())

    def wait(self) -> int:
        """Wait until it has ended; the signal that ended it, 0 if it ended by itself."""
        return int(self._line())

    def close(self) -> None:
        """No more of them."""
        self.process.communicate(timeout=60)

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            _, said = self.process.communicate()
            raise RuntimeError(said)
        return line


def main(folder: Path, port: int) -> None:
    """Serve once for every line."""
    import uvicorn  # noqa: F401  what `serve` would import in every process anew

    from safespot.service import app  # noqa: F401

    with ss.open(folder) as durable:
        warm_up(durable.learner)
    ledger.BYTES = BYTES
    print("ready", flush=True)
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            with short_journals():
                serve(folder, "127.0.0.1", port, Settings(), lambda _: None)
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status) * -1, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
