"""The service on a socket, until it is told to stop."""

from __future__ import annotations

import ipaddress
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..arrays import Episode
from ..errors import InvalidOption, MissingPackage
from ..learners import Learner
from ..syscalls import raise_limit_of_files
from .desk import Desk, Settings, open_desk
from .tokens import read_tokens

GRACE = 10  # seconds that requests have to finish when it stops


def serve(
    folder: Path, host: str, port: int, settings: Settings, ready: Callable[[Desk], None]
) -> None:
    """Serve the durable learner of a folder; `ready` is called before the first request."""
    if not is_loopback(host) and not any(each.revoked is None for each in read_tokens(folder)):
        raise InvalidOption(
            f"without tokens the service listens to this machine only, not to {host}. Make one first: "
            f"safespot serve token add {folder} NAME --right decide"
        )
    try:
        import uvicorn

        from .app import make_service
        from .connections import Connection
    except ImportError as problem:
        raise MissingPackage(
            f"the service needs {problem.name}: pip install 'safespot[serve]'"
        ) from None
    desk = open_desk(folder, settings)
    try:
        warm_up(desk.durable.learner)
    except BaseException:
        desk.ledger.close()
        desk.durable.close()
        raise
    raise_limit_of_files()
    ready(desk)
    # uvicorn raises it once more when everything is closed: to have stopped is a success.
    signal.signal(signal.SIGTERM, lambda *_: None)
    uvicorn.run(
        make_service(desk), host=host, port=port, log_level="warning", access_log=False,
        timeout_graceful_shutdown=GRACE, server_header=False, ws="none", http=Connection,
    )  # fmt: skip


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def warm_up(learner: Learner) -> None:
    """Compile what an episode needs on a learner of its own, so that no request waits for it."""
    f = learner.interface
    start = 0 if f.start is None else f.start
    actions = [int(f.mask[h, start].argmax()) for h in range(f.H)]
    blank = Episode(
        np.full(f.H + 1, start), np.array(actions), np.full(f.H, np.nan),
        np.full((f.H, f.m), np.nan), np.full((f.H, f.m), np.nan), unfinished=True,
    )  # fmt: skip
    copy, meter = learner.anew(), learner.make_meter()
    copy.observe(blank)
    meter.observe(blank)
    _ = meter.violation_bounds, meter.mean_bounds, meter.reward_bounds
