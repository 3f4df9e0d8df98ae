"""What a store shows: one HTML page that needs no network, and figures for print.

    write_report(store)              STORE/report.html
    write_figures(store, "pdf")      STORE/figures/regret.pdf, violation.pdf, …

Data flows down: `findings` reads the store, `region` asks the oracle, `text` says what came out, `tables` holds the
numbers, `charts` draws them for the page and `figures` for print, `sections` and `page` put the page together. See
docs/report.md.
"""

from __future__ import annotations

from pathlib import Path

from ..experiments import Store

__all__ = ["write_figures", "write_report"]


def write_report(store: Store | str | Path, path: str | Path | None = None) -> Path:
    """Write the page of a store, ``STORE/report.html`` by default, and return where it is.

    Examples:
        >>> import safespot as ss
        >>> from safespot.report import write_report
        >>> study = {
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"},
        ...     "learners": [{"name": "uniform"}, {"name": "spot", "options": {"slack": 1, "bonus_scale": 0.01}}],
        ... }
        >>> store = ss.experiments.sweep(study, "results", workers=1, progress=False).store
        >>> write_report(store, "report.html").name
        'report.html'

    """
    from .page import write

    store = _opened(store)
    return write(store, store.path / "report.html" if path is None else Path(path))


def write_figures(
    store: Store | str | Path, kind: str = "pdf", folder: str | Path | None = None
) -> list[Path]:
    """Write figures for print ("pdf", "png" or "svg"), to ``STORE/figures`` by default, and return where they are.

    They need Matplotlib: ``pip install "safespot[report]"``.

    Examples:
        >>> import safespot as ss
        >>> from safespot.report import write_figures
        >>> study = {
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"},
        ...     "learners": [{"name": "uniform"}, {"name": "spot", "options": {"slack": 1, "bonus_scale": 0.01}}],
        ... }
        >>> store = ss.experiments.sweep(study, "results", workers=1, progress=False).store
        >>> [path.name for path in write_figures(store, "svg")]
        ['regret.svg', 'violation.svg', 'thresholds.svg', 'region.svg']

    """
    from .figures import write

    store = _opened(store)
    return write(store, kind, store.path / "figures" if folder is None else Path(folder))


def _opened(store: Store | str | Path) -> Store:
    return store if isinstance(store, Store) else Store(store)
