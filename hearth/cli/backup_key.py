"""Make the key that opens backups: one half goes into the inventory, the other to a person."""

import sys

import typer

from hearth.backup import BackupError, age
from hearth.cli.say import err
from hearth.files import write_atomic
from hearth.project import Project
from hearth.yaml_edit import with_value


def make_key(project: Project) -> None:
    """Show the key once, then write its recipient into the inventory; the key is kept nowhere.

    Raises:
        BackupError: there is a recipient already, or no place for a new one; nothing was made.
    """
    machine = project.house().machine
    file = project.inventory / "local" / "machines.yml"
    if machine.backup.recipient:
        raise BackupError(
            f"this house has a recipient already, {machine.backup.recipient}: remove its line from "
            f"{file} first; its key goes on opening the backups that were made for it"
        )
    identity, recipient = age.new_key()
    old = file.read_text(encoding="utf-8") if file.exists() else "---\n"
    try:
        new = with_value(old, ("machines", machine.name, "backup", "recipient"), recipient)
    except ValueError:
        raise BackupError(
            f"{file}: Hearth cannot edit this file safely: write a line `backup:` into its record "
            f"{machine.name}, then run this again"
        ) from None
    err.print(
        "This is the recovery key. It is shown once and kept nowhere: write it down, or put it "
        "into\na password manager outside this house. Without it nobody can open a backup.\n"
    )
    # In this order: a house must not encrypt for a key that nobody has seen.
    typer.echo(identity)
    sys.stdout.flush()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, new.encode())
    except OSError as error:
        raise BackupError(
            f"{file}: {error.strerror}: nothing was written, so the key above opens nothing: throw "
            "it away"
        ) from None
    err.print(f"\nIts public half stands in {file}. Next: hearth up, then hearth backup")
