"""What the page and the document say alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .sizes import Size

if TYPE_CHECKING:
    from .verifying import Verification

TITLE = "Claims, measured"
ABOUT = {
    Size.quick: "A small version, made in minutes: it shows what short runs and few seeds can show, and "
    "says what it could not show.",
    Size.full: "The full version.",
    Size.extended: "The extended version, with larger problems and longer runs.",
}
LEAD = (
    "Each claim of the paper, and each that the library adds, is tested on runs of the sweeps that safespot "
    "ships; sizes, margins and tests "
    "are part of the package. “Holds” and “does not hold” are outcomes of the named test at its level; “not "
    "shown” means that these runs cannot tell. Tests within a verdict share its level of 5 %, verdicts are "
    "not corrected for each other: about one in twenty may err. Some rules were changed after short runs had been "
    "looked at; the project's documents say which (studies/README.md)."
)


def counted(made: Verification) -> str:
    """How many verdicts there are of each kind."""
    counts = made.counts
    return f"{counts['holds']} hold, {counts['does not hold']} do not hold, {counts['not shown']} are not shown."


def facts(made: Verification) -> list[tuple[str, str]]:
    """Where the numbers come from."""
    p = made.provenance
    command = f"python -m studies.claims{'' if made.size is Size.full else f' --size {made.size}'} --out STORE"
    return [
        ("made by", command),
        ("runs", f"{p['runs']:,}, {p['episodes']:,} episodes; sweeps may share runs"),
        ("seeds", "0, 1, 2, … in every sweep; the same seed is the same noise for every learner"),
        ("learning", f"{p['seconds'] / 60:,.1f} processor minutes; from {p['began']} to {p['ended']} (UTC)"),
        ("versions", "; ".join(p["versions"])),
        ("commit", ", ".join(p["commits"]) or "not in git"),
        ("machine", "; ".join(p["systems"])),
        *([("failed runs", str(len(made.failed)))] if made.failed else []),
    ]  # fmt: skip


def budget(made: Verification) -> tuple[tuple[str, ...], ...]:
    """What each sweep has cost."""
    rows = [
        (s.name, f"{s.runs:,}", f"{s.episodes:,}", f"{s.seconds:,.0f}", f"{1e6 * s.seconds / max(1, s.episodes):.2f}")
        for s in made.sweeps
    ]  # fmt: skip
    return (("sweep", "runs", "episodes", "processor seconds", "µs an episode"), *rows)
