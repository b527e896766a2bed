"""The program behind `hearth lab`."""

from tests.lab_machine.cli import app

if __name__ == "__main__":
    app(prog_name="hearth lab")
