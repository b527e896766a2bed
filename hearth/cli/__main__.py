"""`python -m hearth.cli`."""

from hearth.cli import main

if __name__ == "__main__":
    main()
