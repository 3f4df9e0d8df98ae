"""`make vega`: the Vega of the report, packed anew from the wheel of vl-convert that is installed."""

from __future__ import annotations

import gzip
from pathlib import Path

import safespot.report

PACKED = Path(safespot.report.__file__).parent / "vega.js.gz"


def bundle() -> bytes:
    """Vega, Vega-Lite and Vega-Embed in one script that sets ``window.vegaEmbed``."""
    import vl_convert

    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return script.encode()


if __name__ == "__main__":
    PACKED.write_bytes(gzip.compress(bundle(), 9, mtime=0))
