"""`hearth backup` and `hearth restore`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hearth.backup import BackupError, age
from hearth.backup import restore as restoring
from hearth.backup.agent import DataFolder, data_folders
from hearth.backup.archive import Contents, Manifest
from hearth.backup.create import STATE, Subject, create_backup, note_made, rotate
from hearth.catalogue.house import House
from hearth.cli import playbook
from hearth.cli.console import AsJson, err, note, print_json, read_hidden, show, step
from hearth.files import locked
from hearth.machine import runs
from hearth.project import Project, current
from hearth.smoke.receipt import version
from hearth.yaml_edit import set_in_file

LOCK = Path("/run/hearth-backup.lock")
# The longest wait for a run that converges the house.
_LOCK_S = 600


def make_backup(
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder; older backups in it are kept.")
    ] = None,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Make the key that opens backups, and show it once.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the data of this running house into one encrypted file.

    It holds each `data` folder that is not `copy: none`, all secrets, and the house's certificate
    authority. Without --to it goes to the folder in inventory/machines.yml, and the oldest backups
    there are removed.

    Example: hearth backup --to /mnt/usb
    """
    project = current()
    if new_key:
        _make_key(project)
        return
    house = project.house()
    settings = house.machine.backup
    subject = _subject(project, house)
    folder = to.absolute() if to else Path(settings.to)
    with locked(LOCK, within_s=1):
        restoring.Journal(STATE, project.vault).refuse_unfinished()
        made = create_backup(subject, folder, step)
        note_made(made.path, STATE)
        # A backup with a damaged database must not replace one with a readable database.
        old = rotate(made.path, house.machine.name, settings.keep) if made.good and not to else []
    if as_json:
        file = {"path": str(made.path), "size": made.size, "good": made.good, "began": made.began}
        print_json({**file, **made.manifest.summary(), "removed": [*map(str, old)]})
    else:
        entries = len(made.manifest.entries)
        show(f"[green]made:[/green] {made.path}  ({made.size / 1e6:.1f} MB, {entries} entries)")
        _show_databases(made.manifest)
        for name, why in made.manifest.damaged.items():
            show(f"[red]damaged:[/red] {name}: {why}; copied as a file; older backups are kept")
        for name in made.manifest.left_out:
            show(f"left out (a link or a special file): {name}")
        for path in old:
            show(f"removed {path.name}")
    raise typer.Exit(0 if made.good else 1)


def restore_backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup, on the house's machine.")],
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="KEYFILE",
            exists=True,
            dir_okay=False,
            help="The file with the recovery key; otherwise Hearth prompts for it.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only verify the whole file and list its content.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Discard the data that this house has now.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore a backup, into an empty house or in place of its data.

    The whole file is decrypted and verified first. A backup that is damaged, cut off, newer than
    this Hearth or made for another key is rejected before anything changes.

    Example: hearth restore /mnt/usb/hearth-house-20261124T033000Z.tar.age
    """
    identity = _identity(key)
    step(f"Read {file}")
    contents = restoring.read_backup(file, identity)
    if check:
        _describe(contents, as_json)
        return
    project = current()
    with locked(LOCK, within_s=1):
        filled = restoring.restore_backup(file, identity, contents, _target(project), replace, step)
    if as_json:
        print_json({"restored": [folder.path for folder in filled], **restoring.as_json(contents)})
    else:
        show(f"[green]restored:[/green] the house of {contents.header.made_at}; it is healthy")
        show("next    hearth verify")
    if project.house().machine.backup.recipient is None:
        note(
            "this house does not make backups yet: add this to its machine in "
            "inventory/local/machines.yml, then run hearth up\n"
            f"  backup: {{recipient: {age.recipient_of(identity)}}}"
        )


def _identity(file: Path | None) -> str:
    """Read the recovery key from a file, from a terminal without showing it, or from a pipe."""
    if file is not None:
        return age.read_identity(file.read_text(encoding="utf-8", errors="replace"))
    return age.read_identity(read_hidden("recovery key"))


def _subject(project: Project, house: House) -> Subject:
    recipient = house.machine.backup.recipient
    if recipient is None:
        raise BackupError(
            "this house has no key for its backups yet: run `hearth backup --new-key` and keep the "
            "key that it shows"
        )
    return Subject(
        house=house.machine.name,
        domain=house.machine.domain,
        version=version(project),
        recipient=recipient,
        secrets=project.vault.values(),
        folders=data_folders(house),
    )


def _target(project: Project) -> restoring.RestoreTarget:
    house = project.house()
    return restoring.RestoreTarget(
        domain=house.machine.domain,
        folders=data_folders(house),
        vault=project.vault,
        journal=restoring.Journal(STATE, project.vault),
        converge=lambda only: _converge(project, house, only),
        lock=lambda: runs.alone(step, within_s=_LOCK_S),
    )


def _converge(project: Project, house: House, only: Sequence[DataFolder]) -> None:
    """Converge the whole house, or some services and the machine that they run on."""
    hosts = ",".join(["localhost", house.machine.name, *(folder.instance for folder in only)])
    playbook.run(project, err, ("--limit", hosts) if only else ())


def _show_databases(manifest: Manifest) -> None:
    for name, verdict in manifest.integrity.items():
        show(f"database {name}: {verdict}")


def _describe(contents: Contents, as_json: bool) -> None:
    found = restoring.as_json(contents)
    if as_json:
        print_json(found)
        return
    show(
        f"[green]good:[/green] {found['house']} of {found['made_at']}, {found['entries']} entries, "
        f"{found['bytes'] / 1e6:.1f} MB, {len(contents.secrets)} secrets"
    )
    if found["root"]:
        show(f"root    {found['root']}  (compare `openssl x509 -fingerprint -sha256` of yours)")
    for volume in contents.header.volumes:
        show(f"holds   {volume.path} of {volume.service}")
    _show_databases(contents.manifest)


def _make_key(project: Project) -> None:
    """Show the key once, then write its recipient into the inventory; the key is not kept.

    Raises:
        BackupError: there is a recipient already, and nothing changed, or it cannot be written.
    """
    machine = project.house().machine
    file = project.inventory / "local" / "machines.yml"
    if machine.backup.recipient:
        raise BackupError(
            f"this house has a recipient already, {machine.backup.recipient}: remove its line from "
            f"{file} first; its key still opens the backups that were made for it"
        )
    identity, recipient = age.new_key()
    err.print(
        "This is the recovery key. It is shown once and not stored: write it down, or put it into\n"
        "a password manager outside this house. Without it, no backup can be opened.\n"
    )
    # In this order: a house must not encrypt for a key that was never shown.
    typer.echo(identity)
    sys.stdout.flush()
    try:
        set_in_file(file, ("machines", machine.name, "backup", "recipient"), recipient)
    except OSError as error:
        raise BackupError(
            f"{file}: {error.strerror}: nothing was written, so the key above opens nothing: "
            "discard it"
        ) from None
    err.print(f"\nIts public half is in {file}. Next: hearth up, then hearth backup")
