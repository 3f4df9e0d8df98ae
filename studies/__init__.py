"""Programs that measure safespot, with their protocols and results; no part of the package."""
