"""The service on a socket, until it is told to stop."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..arrays import Episode
from ..errors import InUse, InvalidOption, MissingPackage
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
        sockets = bind(host, port)
    except BaseException:
        desk.ledger.close()
        desk.durable.close()
        raise
    raise_limit_of_files()
    ready(desk)
    # uvicorn raises it once more when everything is closed: to have stopped is a success.
    signal.signal(signal.SIGTERM, lambda *_: None)
    config = uvicorn.Config(
        make_service(desk), host=host, port=port, log_level="warning", access_log=False,
        timeout_graceful_shutdown=GRACE, server_header=False, ws="none", http=Connection,
    )  # fmt: skip
    server = uvicorn.Server(config)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets)
    if not server.started:  # uvicorn has said why
        raise SystemExit(1)


def bind(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of a host: here, where it can be said why there is none."""
    made: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as problem:
        raise InvalidOption(
            f"{host!r} is no address of this machine: {problem.strerror or problem}."
        ) from None
    failed: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(found):
        try:
            made.append(socket.create_server(address, family=family))
        except OSError as problem:  # of a name with several addresses, one may be switched off
            failed = problem
    taken = failed is not None and failed.errno == errno.EADDRINUSE
    if failed is None or (made and not taken):
        return made
    for each in made:
        each.close()
    if taken:
        raise InUse(
            f"port {port} of {host} is taken already. Close what listens there, or choose another: --port."
        )
    raise InvalidOption(f"cannot listen on port {port} of {host}: {failed.strerror or failed}.")


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
