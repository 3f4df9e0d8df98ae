"""Another build of the core, where SAFESPOT_CORE names one: `make test-sanitizers` does."""

from __future__ import annotations

import importlib.util
import os
import sys

if path := os.environ.get("SAFESPOT_CORE"):
    spec = importlib.util.spec_from_file_location("safespot._core", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["safespot._core"] = module
    spec.loader.exec_module(module)
