"""The command `hearth`: a thin front of ansible-playbook, pytest and the engine."""

import sys


def main() -> None:
    """Run one command; a finding of ours is one line (or a few) and exit code 1."""
    from hearth.cli.app import app
    from hearth.cli.say import complain

    try:
        app(prog_name="hearth")
    except KeyboardInterrupt:
        complain("interrupted: run the same command again, it goes on where it was")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        # Each package of ours has one exception type, whose text is meant for a person.
        if not type(error).__module__.startswith("hearth."):
            raise
        complain(str(error))
        sys.exit(1)
