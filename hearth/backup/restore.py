"""Put a backup back: everything is read and believed first, and only then is anything touched."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from hearth.backup import BackupError
from hearth.backup.age import decrypting
from hearth.backup.archive import Readable, check, members
from hearth.backup.child import Child
from hearth.backup.judge import renamed
from hearth.backup.records import DATA, Contents, prefix
from hearth.backup.target import Target, chosen, refuse_full, refuse_narrow
from hearth.backup.volumes import Place
from hearth.machine import pki

Say = Callable[[str], None]


def read(path: Path, identity: str) -> Contents:
    """Decrypt a whole backup, compare it with its manifest, and return what it holds.

    Raises:
        BackupError: another key, a newer format, damage: in one line, and nothing was touched.
    """
    with decrypting(path, identity) as stream:
        contents = check(stream, str(path))
        stream.finish()
    return contents


def restore(
    path: Path, identity: str, contents: Contents, target: Target, replace: bool, say: Say
) -> list[Place]:
    """Put a backup that `read` has found whole into a house; return the folders it filled.

    It can be run again after a kill at any moment. Whatever fails, the house gets back what it had
    before, its secrets among it.

    Raises:
        BackupError: the house is not empty, does not fit, has no room, or did not become healthy.
    """
    places = chosen(contents, target, str(path))
    name = identity_of(contents)
    if not replace and not target.begun.is_of(name):
        refuse_full(contents, places, target)
    # One that cannot be opened could not be put back, either.
    target.secrets()
    if target.begun.settled():
        for place in filter(target.built, places):
            target.hands.put(place, "finish")
    doing = _Doing(contents, places, target, name, say, changed=target.begun.begin(name))
    try:
        doing.build()
        doing.fill(path, identity)
    except _AgainError:
        raise
    except Exception as error:
        raise BackupError(f"{error}\n{doing.undo()}") from None
    target.begun.settle()
    for place in places:
        target.hands.put(place, "finish")
    target.begun.end()
    return places


class _AgainError(BackupError):
    """Nothing is there to go back to: the same command may be said again."""


@dataclass(slots=True)
class _Doing:
    """A restore under way; `changed` once the house is no longer what it was."""

    contents: Contents
    chosen: Sequence[Place]
    target: Target
    name: str
    say: Say
    changed: bool

    def build(self) -> None:
        """Let there be an instance for each folder, made with the old secrets."""
        if all(map(self.target.built, self.chosen)):
            return
        self.say("build the house")
        self.changed = True
        self.target.set_secrets(self.contents.secrets)
        try:
            self.target.converge(())
        except Exception as error:
            if self.target.begun.before():
                raise
            raise _AgainError(f"{error}\nmend that, then say the same command again") from None

    def fill(self, path: Path, identity: str) -> None:
        """Exchange data and secrets while the services stand still, and see the house healthy."""
        contents, chosen, target = self.contents, self.chosen, self.target
        with target.alone():
            for place in chosen:
                if target.hands.look(place)["unfinished"]:
                    self.changed = True
                    target.stop(place)
                    target.hands.put(place, "back")
            refuse_narrow(contents, chosen, target)
            # Before anything lies there that a service could still change.
            self.changed = True
            for place in reversed(chosen):
                target.stop(place)
            with decrypting(path, identity) as stream:
                for number, child in _feeds(stream, contents, chosen, target, self.name, str(path)):
                    self.say(f"{chosen[number].service}: {chosen[number].path}")
                    child.close()
                    child.wait()
            self.say("exchange the data")
            for place in chosen:
                target.hands.put(place, "switch", self.name)
            known = target.secrets()
            target.set_secrets(contents.secrets)
        # Other services have something to learn only where secrets change.
        same = all(known.get(key) == value for key, value in contents.secrets.items())
        try:
            target.converge(chosen if same else ())
        except Exception as error:
            raise BackupError(f"the restored house did not become healthy: {error}") from None

    def undo(self) -> str:
        """Put data and secrets back as they were, and say so in a line."""
        target = self.target
        if not self.changed:
            target.begun.end()
            return "nothing was changed"
        self.say("put back what was there")
        try:
            with target.alone():
                for place in filter(target.built, reversed(self.chosen)):
                    target.stop(place)
                    target.hands.put(place, "back")
                target.set_secrets(target.begun.before())
            target.converge(())
        except Exception as error:
            return (
                f"and what was there did not come back, either ({error}): run `hearth up`; the "
                f"secrets before are in {target.begun.vault}"
            )
        target.begun.end()
        return "what was there before is back"


def identity_of(contents: Contents) -> str:
    """Tell one backup from all others."""
    text = json.dumps(contents.manifest.model_dump(), sort_keys=True)
    return hashlib.sha256(f"{contents.header.made_at}{text}".encode()).hexdigest()


def _feeds(
    stream: Readable,
    contents: Contents,
    chosen: Sequence[Place],
    target: Target,
    name: str,
    where: str,
) -> Iterator[tuple[int, Child]]:
    """Yield the program of each folder when it was given all that belongs there."""
    entries = (one for one in members(stream, where) if one[0].name.startswith(f"{DATA}/"))
    entry = next(entries, None)
    for number, place in enumerate(chosen):
        begin = f"{prefix(contents.header.volumes, number)}/"
        with target.hands.program("put", place, "stage", name) as child:
            with tarfile.open(fileobj=cast("IO[bytes]", child), mode="w|") as tar:
                _give_text(tar, json.dumps(contents.expected(number)).encode())
                while entry is not None and entry[0].name.startswith(begin):
                    info, content = entry
                    given = renamed(info, f"data/{info.name.removeprefix(begin)}")
                    tar.addfile(given, cast("IO[bytes]", content) if content else None)
                    entry = next(entries, None)
            yield number, child
    if entry is not None:
        raise BackupError(f"{where}: {entry[0].name} is out of its order")


def _give_text(tar: tarfile.TarFile, raw: bytes) -> None:
    info = tarfile.TarInfo("expect.json")
    info.size = len(raw)
    tar.addfile(info, io.BytesIO(raw))


def _root(contents: Contents) -> str | None:
    """Return the fingerprint of the house's root, for a person to compare."""
    certificate = contents.secrets.get("house_root_cert")
    try:
        return pki.fingerprint(certificate) if certificate else None
    except ValueError:
        return "no certificate at all"


def as_json(contents: Contents) -> dict[str, Any]:
    """What a backup says of itself, without secrets."""
    entries = contents.manifest.entries.values()
    return {
        **contents.header.model_dump(),
        "root": _root(contents),
        "entries": len(contents.manifest.entries),
        "bytes": sum(entry.size for entry in entries),
        "integrity": {
            name: entry.integrity
            for name, entry in contents.manifest.entries.items()
            if entry.integrity is not None
        },
        "damaged": contents.manifest.damaged,
        "left_out": contents.manifest.left_out,
    }
