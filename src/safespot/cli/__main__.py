"""``python -m safespot.cli`` is the command ``safespot``."""

from . import main

main()
