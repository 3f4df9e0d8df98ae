"""JSON output of commands."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any


def print_json(answer: Any) -> None:
    """Print `answer` as one JSON document."""
    print(json.dumps(answer, indent=2, allow_nan=False, default=float))


def write_policy(path: Path, policy: Any) -> None:
    """Write a policy as NumPy's `.npy`, or as lists where the name ends in `.json`; whole or not at all."""
    import numpy as np

    from ..files import as_path, replace

    content = io.BytesIO()
    if path.suffix == ".json":
        content.write(json.dumps(np.asarray(policy).tolist()).encode())
    else:
        np.save(content, policy)
    replace(as_path(path), content.getvalue())
