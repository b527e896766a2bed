"""Trust on first use, then verification: the digests of `sources.lock.yml`.

A digest recorded on first use is a record `NAME@VERSION` of `inventory/local/sources.lock.yml`:
another version, or a digest that the project ships later, is never compared with an old one.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import yaml

from hearth.catalogue.house import Source
from hearth.sources import Fetched, Progress, SourceError, Store, address_of, file_name
from hearth.yaml_edit import EditError, set_in_file

State = Literal["pinned", "recorded", "verified", "unverified", "changed"]


@dataclass(frozen=True, slots=True)
class Locked:
    """One source after `lock`: `changed` is a recorded digest that was replaced on demand."""

    name: str
    version: str
    sha256: str
    state: State


def lock_file(inventory: Path) -> Path:
    """The file of this house's own digests."""
    return inventory / "local" / "sources.lock.yml"


def known(inventory: Path, source: Source) -> Source:
    """The source with the digest that this house recorded, if the project knows none."""
    if source.sha256 is not None:
        return source
    path = lock_file(inventory)
    try:
        held = yaml.safe_load(path.read_text(encoding="utf-8"))
        record = held["sources"][_record_name(source)]
        digest = record["sha256"] if record["url"] == source.url else None
    except (FileNotFoundError, LookupError, TypeError):
        return source
    except (yaml.YAMLError, UnicodeDecodeError):
        raise SourceError(
            f"{path}: this is not YAML: run `hearth check`, which names the line"
        ) from None
    return replace(source, sha256=digest if isinstance(digest, str) else None)


def record_unverified(inventory: Path, source: Source, sha256: str) -> None:
    """Write the digest of what was fetched into this house's own lock file."""
    record = {"version": source.version, "url": source.url, "sha256": sha256}
    _record(inventory, ("sources", _record_name(source)), record)


def record_manifest(inventory: Path, model_id: str, digest: str) -> None:
    """Write a registry model's manifest digest ("sha256:…") into this house's own lock file."""
    _record(inventory, ("models", model_id), digest)


def _record(inventory: Path, keys: tuple[str, str], value: str | Mapping[str, str]) -> None:
    try:
        set_in_file(lock_file(inventory), keys, value)
    except EditError as error:
        raise SourceError(str(error)) from None


def fetch_once(store: Store, source: Source) -> Fetched:
    """Fetch and verify one source; a digest that was not known is recorded."""
    from hearth.sources.download import fetch  # only a download needs httpx

    fetched = fetch(source, store.downloads, store.mirrors)
    # At once, so that a later kill does not change what is trusted.
    if source.sha256 is None:
        record_unverified(store.inventory, source, fetched.sha256)
    return fetched


def lock_sources(
    store: Store,
    sources: Mapping[str, Source],
    names: Collection[str] = (),
    progress: Progress | None = None,
) -> list[Locked]:
    """Record every source that has no digest yet; verify local files and `names` again.

    A digest that this house recorded is replaced if its source is named; one in
    `inventory/sources.lock.yml` never is.

    Raises:
        SourceError: a source cannot be fetched, or its digest is not that of the lock file.
    """
    from hearth.sources.download import fetch

    rows = []
    for name, source in sorted(sources.items()):
        if "@" in name:
            continue
        held, named = known(store.inventory, source), name in names
        local = address_of(source.url, store.mirrors).startswith("/")
        if held.sha256 is not None and not named and not local:
            state: State = "pinned" if source.sha256 else "recorded"
            rows.append(Locked(source.name, source.version, held.sha256, state))
            continue
        if named:
            (store.downloads / file_name(source)).unlink(missing_ok=True)
        # For a named source the recorded digest is ignored, but not the project's own.
        wanted = source if named else held
        digest = fetch(wanted, store.downloads, store.mirrors, progress).sha256
        state = "verified"
        if held.sha256 != digest:
            record_unverified(store.inventory, source, digest)
            state = "changed" if held.sha256 else "unverified"
        rows.append(Locked(source.name, source.version, digest, state))
    return rows


def _record_name(source: Source) -> str:
    return f"{source.name}@{source.version}"
