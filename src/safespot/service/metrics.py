"""What a service counts, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from .http import BUCKETS

if TYPE_CHECKING:
    from .http import Service

COUNTS = {
    "started": "Episodes that were begun.",
    "decisions": "Decisions that were made.",
    "outcomes": "Outcomes that were taken.",
    "ended": "Episodes that were ended by their client.",
    "expired": "Episodes that expired.",
    "counted": "Episodes that went to the journal.",
    "groups": "Groups in which they went there.",
    "syncs": "Syncs of the ledger.",
    "synced": "Requests that waited for them.",
}


def as_text(service: Service) -> str:
    """All of it, one number a line."""
    return "\n".join(_lines(service)) + "\n"


def _lines(service: Service) -> Iterator[str]:
    desk = service.desk
    for name, about in COUNTS.items():
        yield from _head(f"safespot_{name}_total", "counter", about)
        yield f"safespot_{name}_total {desk.counts[name]}"
    gauges = {
        "open_episodes": ("Episodes that are open.", desk.open),
        "held_back_episodes": ("Episodes that wait for an earlier one.", desk.held_back),
        "episodes": ("Episodes that the learner has learned from.", desk.current.version),
        "stopped": ("1 after an error of the disk.", int(bool(desk.stopped))),
    }
    for name, (about, value) in gauges.items():
        yield from _head(f"safespot_{name}", "gauge", about)
        yield f"safespot_{name} {value}"
    yield from _head("safespot_requests_total", "counter", "Requests by route and status.")
    for (route, status), count in sorted(service.answers.items()):
        yield f'safespot_requests_total{{route="{route}",status="{status}"}} {count}'
    name = "safespot_decision_seconds"
    yield from _head(name, "histogram", "How long a decision took.")
    for edge, count in zip((*BUCKETS, "+Inf"), accumulate(service.times), strict=True):
        yield f'{name}_bucket{{le="{edge}"}} {count}'
    yield f"{name}_sum {service.seconds:.6f}"
    yield f"{name}_count {sum(service.times)}"


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
