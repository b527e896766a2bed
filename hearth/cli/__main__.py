"""`hearth`, or `python -m hearth.cli`: run one command."""

import sys


def main() -> None:
    """Run one command; an error of ours is one line (or a few) and exit code 1."""
    from hearth.cli.app import app

    try:
        app(prog_name="hearth")
    except Exception as error:
        from hearth.cli.console import print_error

        if isinstance(error, PermissionError) and error.filename:
            print_error(f"{error.filename}: {error.strerror}: put `sudo` before the command")
        # Each package of ours has one exception type, whose text is for people.
        elif type(error).__module__.startswith("hearth"):
            print_error(str(error))
        else:
            raise
        sys.exit(1)


if __name__ == "__main__":
    main()
