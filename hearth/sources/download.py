"""Fetch one source: resumed, verified while it streams, and named only when it is complete.

docs/decisions/036 has the reasons for a downloader of our own.
"""

import asyncio
import hashlib
import json
import os
import re
import shutil
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

import httpx

from hearth.files import LockHeldError, locked, sync_folder, write_atomic
from hearth.sources.source import (
    Fetched,
    Limits,
    Progress,
    Source,
    SourceError,
    address_of,
    shown,
)
from hearth.sources.unpack import sha256_of

_SYSTEM_TRUST = Path("/etc/ssl/certs/ca-certificates.crt")
_OVERLAY = "inventory/local/sources.lock.yml"

REGISTRY = "registry.ollama.ai"
_MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
_MANIFEST_S = 30.0
_MANIFEST_BYTES = 1 << 20
# The start of a web page in place of a file: a network's sign-in page, or "not found".
_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype\s+html|html[\s>])", re.IGNORECASE)
_PAGE_REMEDY = (
    "open the address in a browser: a network may want you to sign in, a proxy may refuse it, or "
    "the file has moved"
)

# The server is busy or broken for now; every other status is final.
_TEMPORARY = {408, 425, 429, 500, 502, 503, 504}


class RetryError(Exception):
    """The transfer broke off; another try may bring the rest."""

    def __init__(self, text: str, after_s: float = 0) -> None:
        super().__init__(text)
        self.after_s = after_s


class RefusedError(Exception):
    """Another try would fail in the same way; with `discard`, the received part is worthless."""

    def __init__(self, text: str, remedy: str = "", *, discard: bool = False) -> None:
        super().__init__(text)
        self.remedy = remedy
        self.discard = discard


@dataclass(slots=True)
class Transfer:
    """One HTTP request for the rest of a file.

    `tag` is the server's validator of the received part ("" if it sent none).
    """

    source: Source
    address: str
    handle: BinaryIO
    tag: str | None
    progress: Progress | None
    limits: Limits = field(default_factory=Limits)
    remember: Callable[[str], None] = lambda tag: None
    here: int = 0
    total: int | None = None

    async def run(self, client: httpx.AsyncClient) -> str:
        """Fetch the rest and return the sha256 of the whole; raises RetryError or RefusedError."""
        self.here = self.handle.seek(0, os.SEEK_END)
        # Without a validator only a known digest can tell pieces of two files apart.
        if self.here and not self.tag and self.source.sha256 is None:
            self._start_over()
        try:
            async with client.stream("GET", self.address, headers=self._headers()) as response:
                self._check_response(response)
                return await self._take(response)
        except httpx.TimeoutException:
            raise RetryError(f"nothing arrived for {self.limits.stall_s:g} s") from None
        except httpx.TooManyRedirects:
            raise RefusedError("it redirects in a circle") from None
        except httpx.UnsupportedProtocol:
            raise RefusedError("no address of the kind https://…") from None
        except httpx.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise RefusedError(
                    "its certificate is not trusted here",
                    "check the machine's date, or add your own authority to the machine's store",
                ) from None
            raise RetryError(f"no connection ({error})") from None
        except httpx.HTTPError as error:
            raise RetryError(f"the connection broke ({error or type(error).__name__})") from None

    def _headers(self) -> dict[str, str]:
        # Compressed bytes would not match the digest.
        headers = {"Accept-Encoding": "identity", "User-Agent": "hearth"}
        if self.here:
            headers["Range"] = f"bytes={self.here}-"
            if self.tag:
                headers["If-Range"] = self.tag
        return headers

    def _check_response(self, response: httpx.Response) -> None:
        """Decide from status and headers whether, and where, to write the body."""
        hops = [*response.history, response]
        if self.address.startswith("https:") and any(hop.url.scheme != "https" for hop in hops):
            raise RefusedError("it redirects from https to http")
        if self.source.sha256 is None and not _is_protected(response.url):
            raise RefusedError("no digest is known yet, and plain http does not protect the file")
        status = response.status_code
        if status == 416:
            self._start_over()
            raise RetryError("it has fewer bytes than were received already")
        if status in _TEMPORARY:
            wait = response.headers.get("Retry-After", "")
            raise RetryError(f"it returned {status}", float(wait) if wait.isdecimal() else 0)
        if status not in (200, 206):
            raise RefusedError(f"it returned {status}")
        if is_page(response):
            raise RefusedError("it returned a web page, not the file", _PAGE_REMEDY)
        if status == 206 and not self._continues(response):
            self._start_over()
            raise RetryError("it sent another part than the requested one")
        if status == 200 and self.here:
            self._start_over()
        self._expect(response)

    def _continues(self, response: httpx.Response) -> bool:
        return str(response.headers.get("Content-Range", "")).startswith(f"bytes {self.here}-")

    def _expect(self, response: httpx.Response) -> None:
        """Determine the whole size, and check it against the lock file and the disk."""
        length = response.headers.get("Content-Length", "")
        self.total = self.here + int(length) if length.isdecimal() else self.source.size
        chunked = "chunked" in response.headers.get("Transfer-Encoding", "")
        if self.total is None and not chunked and self.source.sha256 is None:
            # A cut would look like the end, and its digest would be recorded.
            raise RefusedError("it does not send the file's length, and no digest is known yet")
        if self.source.size is not None and self.total != self.source.size:
            raise RefusedError(
                f"it has {self.total:,} bytes, expected {self.source.size:,}", discard=True
            )
        folder = Path(self.handle.name).parent
        free = shutil.disk_usage(folder).free
        needed = (self.total or 0) - self.here + self.limits.spare_bytes
        if free < needed:
            raise RefusedError(
                f"{folder} has {free:,} bytes free, {needed:,} are needed",
                "make room on this disk, then run this again",
            )
        if not self.here:
            etag = response.headers.get("ETag", "")
            # A weak tag promises the same meaning, not the same bytes.
            strong = "" if etag.startswith("W/") else etag
            self.remember(strong or response.headers.get("Last-Modified", ""))

    async def _take(self, response: httpx.Response) -> str:
        """Write and digest the body; the file is on the disk when this returns."""
        digest = self._digest_of_part()
        # As it arrives: a cut would lose the start of a chunk that is still being gathered.
        async for chunk in response.aiter_raw():
            if not self.here and _PAGE.match(chunk):
                raise RefusedError("it sent a web page, not the file", _PAGE_REMEDY, discard=True)
            self.handle.write(chunk)
            digest.update(chunk)
            self.here += len(chunk)
            if self.source.size is not None and self.here > self.source.size:
                raise RefusedError(f"it sends more than {self.source.size:,} bytes", discard=True)
            if self.progress is not None:
                self.progress(self.source.name, self.here, self.total)
            # A fast server would never let the deadline's timer run.
            await asyncio.sleep(0)
        self.handle.flush()
        os.fsync(self.handle.fileno())
        return digest.hexdigest()

    def _digest_of_part(self) -> "hashlib._Hash":
        if not self.here:
            return hashlib.sha256()
        with open(self.handle.name, "rb") as written:
            return hashlib.file_digest(written, "sha256")

    def _start_over(self) -> None:
        self.handle.truncate(0)
        self.here = 0


def is_page(response: httpx.Response) -> bool:
    """Whether a server declares its response as a web page."""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind in ("text/html", "application/xhtml+xml")


def _is_protected(url: httpx.URL) -> bool:
    return url.scheme == "https" or url.host in ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class _Job:
    """The download of one source into one folder."""

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
        """Build an error with the source, its address, the reason and the remedy."""
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
    """Fetch `source` into the folder `into` and verify its sha256; a local file stays in place.

    A file that is there already is verified, not fetched. A killed run's part is resumed. It runs
    its own event loop: from a running one, call it in a thread.

    Raises:
        SourceError: it cannot be fetched, or its digest is not that of the lock file; in one line.
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
    """Return the file of an earlier run if its digest matches; a damaged one is removed."""
    if not job.target.is_file():
        return None
    digest = sha256_of(job.target)
    if job.source.sha256 in (None, digest):
        return _fetched(job, job.target, digest)
    job.target.unlink()
    return None


def _checked(job: _Job, path: Path) -> Fetched:
    """Verify a local file in its place."""
    if not path.is_file():
        raise job.error(f"there is no such file: put it there, or change `url` in {_OVERLAY}")
    digest = sha256_of(path)
    if job.source.sha256 not in (None, digest):
        raise _mismatch(job, digest)
    return _fetched(job, path, digest)


def _fetched(job: _Job, path: Path, digest: str) -> Fetched:
    return Fetched(path, digest, job.source.sha256 is None, shown(job.address))


def _mismatch(job: _Job, digest: str) -> SourceError:
    return job.error(
        f"its sha256 is {digest}, expected {job.source.sha256}: the file was changed or is another "
        f"version: do not use it, unless you know why it changed (then `hearth lock "
        f"{job.source.name}` records it again, or {_OVERLAY} gets the new one)"
    )


def _download(job: _Job) -> Fetched:
    """Retry until the file is complete, as long as bytes arrive and time is left."""
    deadline = time.monotonic() + job.limits.timeout_s
    failures, resumed = 0, False
    while True:
        before = _size(job.part)
        resumed = resumed or before > 0
        try:
            digest = _attempt(job, deadline)
        except RetryError as retry:
            failures = 1 if _size(job.part) > before else failures + 1
            pause = min(job.limits.backoff_s * 2 ** (failures - 1), job.limits.backoff_max_s)
            pause = max(pause, min(retry.after_s, job.limits.backoff_max_s))
            if failures >= job.limits.attempts or time.monotonic() + pause > deadline:
                raise job.error(
                    f"{retry} ({_size(job.part):,} bytes are here, the next run continues):"
                    f" run this again later, or name a mirror or a local file in {_OVERLAY}"
                ) from None
            time.sleep(pause)
            continue
        if job.source.sha256 in (None, digest):
            return _keep(job, digest)
        _forget(job)
        if not resumed:
            raise _mismatch(job, digest)
        # Perhaps parts of two different files: only a whole download proves a mismatch.
        resumed = False


def _attempt(job: _Job, deadline: float) -> str:
    """Send one request, from where the last time ended; returns the sha256 of the whole file."""
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
            f"not ready after {job.limits.timeout_s:g} s: run this again, it continues from here"
        ) from None
    except RefusedError as refused:
        if refused.discard:
            _forget(job)
        raise job.error(f"{refused}: {refused.remedy or _remedy(job)}") from None
    except OSError as error:
        raise job.error(f"cannot write to {job.into}: {error.strerror or error}") from None


async def _within(transfer: Transfer, left_s: float, limits: Limits) -> str:
    timeout = httpx.Timeout(limits.stall_s, connect=min(limits.stall_s, 15))
    # httpx bounds each read; a server that drips its headers would never end otherwise.
    async with (
        asyncio.timeout(left_s),
        httpx.AsyncClient(timeout=timeout, follow_redirects=True, verify=system_trust()) as client,
    ):
        return await transfer.run(client)


def system_trust() -> ssl.SSLContext:
    """Return the machine's own trust store, which may hold a company's or a lab's authority."""
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
    return _fetched(job, job.target, digest)


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
    """Return the server's validator of the part; None when it is of another source."""
    try:
        known = json.loads(_validator_file(job).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = isinstance(known, dict) and known.get("source") == asdict(job.source)
    return str(known.get("tag", "")) if same and known.get("address") == job.address else None


def _write_validator(job: _Job, tag: str) -> None:
    known = {"address": job.address, "source": asdict(job.source), "tag": tag}
    write_atomic(_validator_file(job), json.dumps(known).encode())


def manifest_address(model_id: str) -> str:
    """Return the address of the manifest of `[host/][namespace/]name[:tag]`."""
    path, _, tag = model_id.partition(":")
    parts = path.split("/")
    host = parts.pop(0) if len(parts) > 1 and "." in parts[0] else REGISTRY
    name = "/".join(parts if len(parts) > 1 else ["library", *parts])
    if not re.fullmatch(r"[\w./-]+", name) or not re.fullmatch(r"[\w.-]*", tag):
        raise SourceError(f"model {model_id!r}: write a registry name, e.g. qwen3.5:4b")
    return f"https://{host}/v2/{name}/manifests/{tag or 'latest'}"


def manifest_digest(model_id: str, mirrors: Mapping[str, str]) -> str:
    """Return the "sha256:…" of the manifest that the registry serves now."""
    address = address_of(manifest_address(model_id), mirrors)
    try:
        body = asyncio.run(_get(address))
    except TimeoutError:
        raise SourceError(
            f"model {model_id} from {shown(address)}: no response in {_MANIFEST_S:g} s: try later"
        ) from None
    except httpx.HTTPStatusError as error:
        raise SourceError(
            f"model {model_id} from {shown(address)}: it returned {error.response.status_code}: "
            "check that models.yml has its name in the registry"
        ) from None
    except httpx.HTTPError as error:
        raise SourceError(
            f"model {model_id} from {shown(address)}: no response ({error}): check that this "
            "machine can reach it, or name a mirror prefix in inventory/local/sources.lock.yml"
        ) from None
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


async def _get(address: str) -> bytes:
    headers = {"Accept": _MANIFEST_TYPE, "User-Agent": "hearth"}
    async with (
        asyncio.timeout(_MANIFEST_S),
        httpx.AsyncClient(verify=system_trust(), follow_redirects=True) as client,
        client.stream("GET", address, headers=headers) as response,
    ):
        response.raise_for_status()
        if is_page(response):
            # Its digest would be recorded and trusted.
            raise httpx.DecodingError("the body is a web page, not a manifest")
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MANIFEST_BYTES:
                raise httpx.DecodingError("a manifest of more than 1 MiB")
        return body
