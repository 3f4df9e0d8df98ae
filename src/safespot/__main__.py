"""The command `safespot`, also as `python -m safespot`: Ctrl-C while its parts are imported ends it, too."""

import signal


def main() -> None:
    """Import the command and run it."""
    try:
        from .cli import main as command

        command()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending already
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
