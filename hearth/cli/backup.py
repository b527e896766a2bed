"""Keep what is precious: make backups, and put one back."""

import contextlib
import getpass
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hearth.backup import BackupError, age, keep
from hearth.backup import restore as back
from hearth.backup.begun import Begun
from hearth.backup.records import Contents
from hearth.backup.take import Made, Subject, take
from hearth.backup.target import Target
from hearth.backup.volumes import Hands, Place, kept, places
from hearth.catalogue.house import House
from hearth.cli import playbook
from hearth.cli.backup_key import make_key
from hearth.cli.say import AsJson, err, show, write_json
from hearth.files import locked
from hearth.machine import engine, runs
from hearth.machine.secrets import Vault
from hearth.project import Project, current
from hearth.smoke.run import version

LOCK = Path("/run/hearth-backup.lock")
STATE = Path("/var/lib/hearth/backup")
_STOP_S = 120
# Somebody who converges the house meanwhile is waited for.
_LOCK_S = 600


def backup(
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="A folder; nothing old is removed.")
    ] = None,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Make the key that opens backups, and show it once.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write everything precious of this house into one encrypted file, while it runs.

    That is each `data` folder that is not `copy: none`, all secrets, and the house's authority.
    Without --to it goes where inventory/machines.yml says, and the oldest ones go.

    Example: hearth backup --to /mnt/usb
    """
    project = current()
    if new_key:
        make_key(project)
        return
    house = project.house()
    settings = house.machine.backup
    subject = _subject(project, house)
    folder = to.absolute() if to else Path(settings.to)
    with _alone():
        _begun(project).refuse()
        made = take(subject, folder, Hands(), _say)
        # A backup with a database that SQLite cannot read replaces none that it could.
        old = (
            keep.rotate(made.path, house.machine.name, settings.keep)
            if made.good and not to
            else []
        )
    if as_json:
        write_json(
            {**asdict(made), "path": str(made.path), "good": made.good, "removed": [*map(str, old)]}
        )
    else:
        _tell(made, old)
    raise typer.Exit(0 if made.good else 1)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup, on the house's machine.")],
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="KEYFILE", help="Where the recovery key lies; else asked."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only read it all and say what is in it.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Give up what this house holds now.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put a backup back: into a bare machine, or into a house in place of what it holds.

    All of it is decrypted and compared first. What is damaged, cut, newer or has another key is
    refused, and nothing was touched.

    Example: hearth restore /mnt/usb/hearth-house-20261124T033000Z.tar.age
    """
    identity = _identity(key)
    _say(f"read {file}")
    contents = back.read(file, identity)
    if check:
        _describe(contents, as_json)
        return
    project = current()
    with _alone():
        filled = back.restore(file, identity, contents, _target(project), replace, _say)
    if as_json:
        write_json({"restored": [place.path for place in filled], **back.as_json(contents)})
    else:
        show(f"[green]restored:[/green] the house of {contents.header.made_at}, and it is healthy")
        show("look    hearth verify")
    if project.house().machine.backup.recipient is None:
        err.print(
            "[yellow]note:[/yellow] this house makes no backups of its own yet: write this into "
            "inventory/local/machines.yml, below the machine, then say hearth up\n"
            f"  backup: {{recipient: {age.recipient_of(identity)}}}"
        )


def _identity(file: Path | None) -> str:
    """Read the recovery key from a file, from a terminal without showing it, or from a pipe."""
    try:
        if file is not None:
            return age.read_identity(file.read_text(encoding="utf-8"))
        if sys.stdin.isatty():
            return age.read_identity(getpass.getpass("recovery key: "))
        return age.read_identity(sys.stdin.read())
    except (OSError, UnicodeDecodeError) as error:
        raise BackupError(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def _subject(project: Project, house: House) -> Subject:
    recipient = house.machine.backup.recipient
    if recipient is None:
        raise BackupError(
            "nobody could open a backup of this house yet: say `hearth backup --new-key`, and keep "
            "what it shows"
        )
    return Subject(
        house=house.machine.name,
        domain=house.machine.domain,
        version=version(project),
        recipient=recipient,
        secrets=project.vault.values(),
        places=places(house),
    )


def _target(project: Project) -> Target:
    house = project.house()

    def set_secrets(values: Mapping[str, str]) -> None:
        if values:
            project.vault.update(values)

    return Target(
        domain=house.machine.domain,
        places=places(house),
        hands=Hands(),
        secrets=project.vault.values,
        set_secrets=set_secrets,
        built=_built,
        holds=kept,
        stop=_stop,
        converge=lambda only: _converge(project, house, only),
        alone=lambda: runs.alone(_say, within_s=_LOCK_S),
        begun=_begun(project),
    )


def _begun(project: Project) -> Begun:
    vault = project.vault
    return Begun(
        STATE,
        sealed=lambda: vault.path.read_bytes() if vault.path.exists() else b"",
        opened=lambda path: Vault(path, vault.password_file).values(),
    )


def _built(place: Place) -> bool:
    with contextlib.suppress(engine.EngineError):
        return engine.state(place.instance).running
    return False


def _stop(place: Place) -> None:
    argv = ["/usr/bin/systemctl", "stop", place.unit]
    done = engine.execute(place.instance, argv, timeout=_STOP_S)
    if done.returncode:
        raise BackupError(f"{place.instance}: {place.unit} does not stop: {done.stderr.strip()}")


def _converge(project: Project, house: House, only: Sequence[Place]) -> None:
    """Converge the whole house, or some services and what they need of their machine."""
    hosts = ",".join(["localhost", house.machine.name, *(place.instance for place in only)])
    playbook.run(project, err, ("--limit", hosts) if only else ())


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    try:
        with locked(LOCK, within_s=1):
            yield
    except PermissionError:
        raise BackupError(f"{LOCK}: only root may do this: say `sudo` before the command") from None


def _say(text: str) -> None:
    err.print(f"[dim]        [/dim]  {text}", highlight=False)


def _tell(made: Made, old: list[Path]) -> None:
    show(f"[green]made:[/green] {made.path}  ({made.size / 1e6:.1f} MB, {made.entries} entries)")
    for name, verdict in made.databases.items():
        show(f"database {name}: {verdict}")
    for name, why in made.damaged.items():
        show(f"[red]damaged:[/red] {name}: {why}; it was copied as a file, older backups are kept")
    for name in made.left_out:
        show(f"left out (a link or no file): {name}")
    for path in old:
        show(f"removed {path.name}")


def _describe(contents: Contents, as_json: bool) -> None:
    said = back.as_json(contents)
    if as_json:
        write_json(said)
        return
    show(
        f"[green]whole:[/green] {said['house']} of {said['made_at']}, {said['entries']} entries, "
        f"{said['bytes'] / 1e6:.1f} MB, {len(contents.secrets)} secrets"
    )
    if said["root"]:
        show(f"root    {said['root']}  (`openssl x509 -fingerprint -sha256` of your own one)")
    for volume in contents.header.volumes:
        show(f"holds   {volume.path} of {volume.service}")
    for name, verdict in said["integrity"].items():
        show(f"database {name}: {verdict}")
