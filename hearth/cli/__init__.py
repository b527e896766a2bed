"""The command `hearth`: a thin layer over ansible-playbook, pytest and the engine."""

import sys


def main() -> None:
    """Run one command; an error of ours is one line (or a few) and exit code 1."""
    from hearth.cli.app import app

    try:
        app(prog_name="hearth")
    except KeyboardInterrupt:
        _print_error("interrupted: run the same command again; it continues from there")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        # Each package of ours has one exception type, whose text is for people.
        if not type(error).__module__.startswith("hearth."):
            raise
        _print_error(str(error))
        sys.exit(1)


def _print_error(text: str) -> None:
    from hearth.cli.console import print_error

    print_error(text)
