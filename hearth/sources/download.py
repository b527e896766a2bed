"""Fetch one source: resumed, verified while it streams, and named only when all of it is here."""

import asyncio
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from hearth.files import LockHeldError, locked, sync_folder, write_atomic
from hearth.sources.archive import sha256_of
from hearth.sources.errors import SourceError
from hearth.sources.model import Fetched, Limits, Progress, Source, address_of, shown
from hearth.sources.transfer import Again, Refused, Transfer

_SYSTEM_TRUST = Path("/etc/ssl/certs/ca-certificates.crt")
_OVERLAY = "inventory/local/sources.lock.yml"


@dataclass(frozen=True, slots=True)
class _Job:
    """One source on its way into one folder."""

    source: Source
    address: str
    into: Path
    progress: Progress | None
    limits: Limits

    @property
    def target(self) -> Path:
        return self.into / self.source.file_name

    @property
    def part(self) -> Path:
        return self.into / f"{self.source.file_name}.part"

    def error(self, what: str) -> SourceError:
        """What is wrong, with which source, from where, and what a person can do about it."""
        return SourceError(
            f"{self.source.name} {self.source.version} from {shown(self.address)}: {what}"
        )


def fetch(
    source: Source,
    into: Path,
    mirrors: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> Fetched:
    """Bring `source` into the folder `into` and verify its sha256; a local file stays where it is.

    A file that is there already is verified, not fetched. What a killed run left is resumed. It
    runs its own event loop: from a running one, call it in a thread.

    Raises:
        SourceError: it cannot be had, or is not what the lock file says; in one line.
    """
    address = address_of(source.url, mirrors or {})
    job = _Job(source, address, into, progress, limits or Limits())
    if address.startswith("/"):
        return _checked(job, Path(address))
    into.mkdir(parents=True, exist_ok=True)
    try:
        # A download of a killed run may still be alive; two must not write one file.
        with locked(into / f".{source.file_name}.lock", job.limits.stall_s * 2):
            return _present(job) or _download(job)
    except LockHeldError as error:
        raise job.error(str(error)) from None


def _present(job: _Job) -> Fetched | None:
    """The file of an earlier run, if it is what the lock file says; a damaged one is removed."""
    if not job.target.is_file():
        return None
    digest = sha256_of(job.target)
    if job.source.sha256 in (None, digest):
        return _answer(job, job.target, digest)
    job.target.unlink()
    return None


def _checked(job: _Job, path: Path) -> Fetched:
    """A local file, verified where it lies."""
    if not path.is_file():
        raise job.error(f"there is no such file: put it there, or change `url` in {_OVERLAY}")
    digest = sha256_of(path)
    if job.source.sha256 not in (None, digest):
        raise _mismatch(job, digest)
    return _answer(job, path, digest)


def _answer(job: _Job, path: Path, digest: str) -> Fetched:
    return Fetched(path, digest, job.source.sha256 is None, shown(job.address))


def _mismatch(job: _Job, digest: str) -> SourceError:
    return job.error(
        f"its sha256 is {digest}, expected {job.source.sha256}: the file was changed or is another "
        f"version: do not use it, unless you know why it changed (then `hearth lock "
        f"{job.source.name}` records it anew, or {_OVERLAY} gets the new one)"
    )


def _download(job: _Job) -> Fetched:
    """Try until it is here, as long as something arrives and the time is not over."""
    deadline = time.monotonic() + job.limits.timeout_s
    failures, resumed = 0, False
    while True:
        before = _size(job.part)
        resumed = resumed or before > 0
        try:
            digest = _attempt(job, deadline)
        except Again as again:
            failures = 1 if _size(job.part) > before else failures + 1
            pause = min(job.limits.backoff_s * 2 ** (failures - 1), job.limits.backoff_max_s)
            pause = max(pause, min(again.after_s, job.limits.backoff_max_s))
            if failures >= job.limits.attempts or time.monotonic() + pause > deadline:
                raise job.error(
                    f"{again} ({_size(job.part):,} bytes are here, the next run goes on from them):"
                    f" run this again later, or name a mirror or a local file in {_OVERLAY}"
                ) from None
            time.sleep(pause)
            continue
        if job.source.sha256 in (None, digest):
            return _keep(job, digest)
        _forget(job)
        if not resumed:
            raise _mismatch(job, digest)
        # Pieces of two different files, perhaps: only a whole one is a reason to complain.
        resumed = False


def _attempt(job: _Job, deadline: float) -> str:
    """Ask once, from where the last time ended; gives the sha256 of the whole file."""
    validator = _read_validator(job)
    if validator is None:
        _forget(job)
    left_s = max(0.0, deadline - time.monotonic())
    try:
        with job.part.open("ab") as handle:
            transfer = Transfer(
                job.source,
                job.address,
                handle,
                validator,
                job.progress,
                job.limits,
                remember=lambda tag: _write_validator(job, tag),
            )
            return asyncio.run(_within(transfer, left_s, job.limits))
    except TimeoutError:
        raise job.error(
            f"not ready after {job.limits.timeout_s:g} s: run this again, it goes on from here"
        ) from None
    except Refused as refused:
        if refused.discard:
            _forget(job)
        raise job.error(f"{refused}: {refused.remedy or _remedy(job)}") from None
    except OSError as error:
        raise job.error(f"cannot write to {job.into}: {error.strerror or error}") from None


async def _within(transfer: Transfer, left_s: float, limits: Limits) -> str:
    timeout = httpx.Timeout(limits.stall_s, connect=min(limits.stall_s, 15))
    # httpx bounds each read; a server that drips its headers would otherwise never end.
    async with (
        asyncio.timeout(left_s),
        httpx.AsyncClient(timeout=timeout, follow_redirects=True, verify=system_trust()) as client,
    ):
        return await transfer.run(client)


def system_trust() -> ssl.SSLContext:
    """Whom the machine itself trusts: a company's or a lab's own authority stands there."""
    context = ssl.create_default_context()
    if _SYSTEM_TRUST.exists():
        context.load_verify_locations(_SYSTEM_TRUST)
    return context


def _remedy(job: _Job) -> str:
    return (
        f"name another address, a mirror prefix or a local file for {job.source.name} in {_OVERLAY}"
    )


def _keep(job: _Job, digest: str) -> Fetched:
    job.part.replace(job.target)
    sync_folder(job.into)
    _validator_file(job).unlink(missing_ok=True)
    return _answer(job, job.target, digest)


def _forget(job: _Job) -> None:
    job.part.unlink(missing_ok=True)
    _validator_file(job).unlink(missing_ok=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _validator_file(job: _Job) -> Path:
    return job.part.with_name(f"{job.part.name}.json")


def _read_validator(job: _Job) -> str | None:
    """What the server called the file that the part is of; None when it is of another address."""
    try:
        known = json.loads(_validator_file(job).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = isinstance(known, dict) and known.get("source") == asdict(job.source)
    return str(known.get("tag", "")) if same and known.get("address") == job.address else None


def _write_validator(job: _Job, tag: str) -> None:
    known = {"address": job.address, "source": asdict(job.source), "tag": tag}
    write_atomic(_validator_file(job), json.dumps(known).encode())
