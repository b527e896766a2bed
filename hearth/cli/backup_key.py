"""Make the key that opens backups: one half goes into the inventory, the other to a person."""

import re
import sys

import typer
import yaml

from hearth.backup import BackupError, age
from hearth.cli.say import err
from hearth.files import write_atomic
from hearth.project import Project


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
    new = with_recipient(old, machine.name, recipient)
    if new is None:
        raise BackupError(
            f"{file}: cannot be extended by Hearth: write a line `backup:` into its record "
            f"{machine.name}, then say this again"
        )
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


def with_recipient(text: str, machine: str, recipient: str) -> str | None:
    """Return the text of a machines.yml with a recipient; None when that cannot be done safely."""
    wanted = yaml.safe_load(text) or {}
    wanted.setdefault("machines", None)
    records = wanted["machines"] = wanted["machines"] or {}
    record = records[machine] = records.get(machine) or {}
    record["backup"] = {**(record.get("backup") or {}), "recipient": recipient}
    for new in _tries(text, machine, recipient):
        try:
            # People write YAML in many ways: only a text that says just this one thing more is it.
            if yaml.safe_load(new) == wanted:
                return new
        except yaml.YAMLError:
            continue
    return None


def _tries(text: str, machine: str, recipient: str) -> list[str]:
    """Ways to add the line, for the habits that people have."""
    line = f"recipient: {recipient}"
    whole = f"machines:\n  {machine}:\n    backup:\n      {line}\n"
    # A second `machines:` would take the first one's place.
    tries = [] if re.search("^machines:", text, re.M) else [text.rstrip("\n") + "\n" + whole]
    for owner, more in (("backup", line), (machine, f"backup: {{{line}}}")):
        tries.append(re.sub(rf"(\b{re.escape(owner)}: *{{)", rf"\1{more}, ", text))
    for indent in (2, 4):
        room = " " * indent
        # Below `backup:` where it is there; else a new one as the first of the record.
        for owner, begin in (
            ("backup", f"{room * 3}{line}\n"),
            (machine, f"{room * 2}backup:\n{room * 3}{line}\n"),
            ("machines", f"{room}{machine}:\n{room * 2}backup:\n{room * 3}{line}\n"),
        ):
            pattern = rf"^( *){re.escape(owner)}:[ \t]*(#.*)?\n"
            tries += [
                text[: found.end()] + begin + text[found.end() :]
                for found in re.finditer(pattern, text, re.MULTILINE)
            ]
        spent = r"^(?P<key> *recipient:).*$"
        tries.append(re.sub(spent, rf"\g<key> {recipient}", text, flags=re.MULTILINE))
    return tries
