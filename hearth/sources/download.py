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
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import httpx

from hearth.catalogue.house import Source
from hearth.files import LockHeldError, locked, sync_folder, write_atomic
from hearth.sources.source import (
    Fetched,
    Limits,
    Progress,
    SourceError,
    address_of,
    file_name,
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


class _RetryError(Exception):
    """The transfer broke off; another try may bring the rest."""

    def __init__(self, text: str, after_s: float = 0) -> None:
        super().__init__(text)
        self.after_s = after_s


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
    job = _Download(source, address_of(source.url, mirrors or {}), into, progress)
    job.limits = limits or job.limits
    if job.address.startswith("/"):
        path = Path(job.address)
        if not path.is_file():
            raise job.error(f"there is no such file: put it there, or change `url` in {_OVERLAY}")
        return job.verified(path, sha256_of(path))
    into.mkdir(parents=True, exist_ok=True)
    try:
        # A download of a killed run may still be alive; two must not write one file.
        with locked(into / f".{file_name(source)}.lock", job.limits.stall_s * 2):
            if job.target.is_file():
                digest = sha256_of(job.target)
                if source.sha256 in (None, digest):
                    return Fetched(job.target, digest)
                job.target.unlink()
            return job.run()
    except LockHeldError as error:
        raise job.error(str(error)) from None


@dataclass(slots=True)
class _Download:
    """The download of one source into one folder.

    `here` counts the received bytes; `handle` is the open part while a request runs.
    """

    source: Source
    address: str
    into: Path
    progress: Progress | None
    limits: Limits = field(default_factory=Limits)
    handle: BinaryIO = field(init=False)
    here: int = 0

    @property
    def target(self) -> Path:
        return self.into / file_name(self.source)

    @property
    def part(self) -> Path:
        return self.into / f"{file_name(self.source)}.part"

    @property
    def validator(self) -> Path:
        """The file with the server's validator of the part, and with what the part belongs to."""
        return self.part.with_name(f"{self.part.name}.json")

    def error(self, what: str) -> SourceError:
        """Build an error with the source, its address, the reason and the remedy."""
        return SourceError(
            f"{self.source.name} {self.source.version} from {shown(self.address)}: {what}"
        )

    def refused(self, what: str, remedy: str = "", *, discard: bool = False) -> SourceError:
        """Build an error that another try would repeat; `discard` removes the worthless part."""
        if discard:
            self._forget()
        usual = f"name another address, a mirror prefix or a local file for {self.source.name} in"
        return self.error(f"{what}: {remedy or f'{usual} {_OVERLAY}'}")

    def verified(self, path: Path, digest: str) -> Fetched:
        """Return the file if its digest is the expected one, or if none is known."""
        if self.source.sha256 in (None, digest):
            return Fetched(path, digest)
        raise self.error(
            f"its sha256 is {digest}, expected {self.source.sha256}: the file was changed or is "
            "another version: do not use it, unless you know why it changed (then `hearth lock "
            f"{self.source.name}` records it again, or {_OVERLAY} gets the new one)"
        )

    def run(self) -> Fetched:
        """Retry until the file is complete, as long as bytes arrive and time is left."""
        deadline = time.monotonic() + self.limits.timeout_s
        failures, resumed = 0, False
        while True:
            before = self._part_bytes()
            resumed = resumed or before > 0
            try:
                digest = self._attempt(deadline)
            except _RetryError as retry:
                failures = 1 if self._part_bytes() > before else failures + 1
                pause = max(self.limits.backoff_s * 2 ** (failures - 1), retry.after_s)
                pause = min(pause, self.limits.backoff_max_s)
                if failures >= self.limits.attempts or time.monotonic() + pause > deadline:
                    raise self.error(
                        f"{retry} ({self._part_bytes():,} bytes are here, the next run continues):"
                        f" run this again later, or name a mirror or a local file in {_OVERLAY}"
                    ) from None
                time.sleep(pause)
                continue
            if resumed and self.source.sha256 not in (None, digest):
                # Perhaps parts of two different files: only a whole download proves a mismatch.
                self._forget()
                resumed = False
                continue
            try:
                fetched = self.verified(self.target, digest)
            except SourceError:
                self._forget()
                raise
            self.part.replace(self.target)
            sync_folder(self.into)
            self.validator.unlink(missing_ok=True)
            return fetched

    def _attempt(self, deadline: float) -> str:
        """Send one request, from where the last time ended; returns the sha256 of the whole file.

        Raises:
            _RetryError: it broke off.
        """
        tag = self._read_validator()
        if tag is None:
            self._forget()
        left_s = max(0.0, deadline - time.monotonic())
        try:
            with self.part.open("ab") as self.handle:
                return asyncio.run(self._request(tag, left_s))
        except TimeoutError:
            raise self.error(
                f"not ready after {self.limits.timeout_s:g} s: run this again, it continues from"
                " here"
            ) from None
        except OSError as error:
            raise self.error(f"cannot write to {self.into}: {error.strerror or error}") from None

    async def _request(self, tag: str | None, left_s: float) -> str:
        """Request the rest of a part that has the validator `tag` ("" if the server sent none)."""
        self.here = self.handle.seek(0, os.SEEK_END)
        # Without a validator only a known digest can tell pieces of two files apart.
        if self.here and not tag and self.source.sha256 is None:
            self._start_over()
        # Compressed bytes would not match the digest.
        headers = {"Accept-Encoding": "identity", "User-Agent": "hearth"}
        if self.here:
            headers |= {"Range": f"bytes={self.here}-"} | ({"If-Range": tag} if tag else {})
        stall_s = self.limits.stall_s
        timeout = httpx.Timeout(stall_s, connect=min(stall_s, 15))
        trust = system_trust()
        try:
            # httpx bounds each read; a server that drips its headers would never end otherwise.
            async with (
                asyncio.timeout(left_s),
                httpx.AsyncClient(timeout=timeout, follow_redirects=True, verify=trust) as client,
                client.stream("GET", self.address, headers=headers) as response,
            ):
                total = self._check_response(response)
                return await self._take(response, total)
        except httpx.TimeoutException:
            raise _RetryError(f"nothing arrived for {stall_s:g} s") from None
        except httpx.TooManyRedirects:
            raise self.refused("it redirects in a loop") from None
        except httpx.UnsupportedProtocol:
            raise self.refused("this is not an https:// address") from None
        except httpx.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise self.refused(
                    "its certificate is not trusted here",
                    "check the machine's date, or add your own authority to the machine's store",
                ) from None
            raise _RetryError(f"no connection ({error})") from None
        except httpx.HTTPError as error:
            raise _RetryError(f"the connection broke ({error or type(error).__name__})") from None

    def _check_response(self, response: httpx.Response) -> int | None:
        """Decide from status and headers whether, and where, to write; return the whole size."""
        hops = [*response.history, response]
        if self.address.startswith("https:") and any(hop.url.scheme != "https" for hop in hops):
            raise self.refused("it redirects from https to http")
        if self.source.sha256 is None and not _is_protected(response.url):
            raise self.refused("no digest is known yet, and plain http does not protect the file")
        status = response.status_code
        if status == 416:
            self._start_over()
            raise _RetryError("it has fewer bytes than were received already")
        if status in _TEMPORARY:
            wait = response.headers.get("Retry-After", "")
            raise _RetryError(f"it returned {status}", float(wait) if wait.isdecimal() else 0)
        if status not in (200, 206):
            raise self.refused(f"it returned {status}")
        if is_page(response):
            raise self.refused("it returned a web page, not the file", _PAGE_REMEDY)
        sent = response.headers.get("Content-Range", "")
        if status == 206 and not sent.startswith(f"bytes {self.here}-"):
            self._start_over()
            raise _RetryError("it sent another part than the requested one")
        if status == 200 and self.here:
            self._start_over()
        total = self._expected_bytes(response)
        free = shutil.disk_usage(self.into).free
        needed = (total or 0) - self.here + self.limits.spare_bytes
        if free < needed:
            raise self.refused(
                f"{self.into} has {free:,} bytes free, {needed:,} are needed",
                "make room on this disk, then run this again",
            )
        if not self.here:
            etag = response.headers.get("ETag", "")
            # A weak tag promises the same meaning, not the same bytes.
            strong = "" if etag.startswith("W/") else etag
            self._write_validator(strong or response.headers.get("Last-Modified", ""))
        return total

    def _expected_bytes(self, response: httpx.Response) -> int | None:
        """Return the whole size, which must be that of the lock file."""
        length = response.headers.get("Content-Length", "")
        total = self.here + int(length) if length.isdecimal() else self.source.size
        chunked = "chunked" in response.headers.get("Transfer-Encoding", "")
        if total is None and not chunked and self.source.sha256 is None:
            # A cut would look like the end, and its digest would be recorded.
            raise self.refused("it does not send the file's length, and no digest is known yet")
        if self.source.size is not None and total != self.source.size:
            raise self.refused(
                f"it has {total:,} bytes, expected {self.source.size:,}", discard=True
            )
        return total

    async def _take(self, response: httpx.Response, total: int | None) -> str:
        """Write and digest the body; the file is on the disk when this returns."""
        with self.part.open("rb") as received:
            digest = hashlib.file_digest(received, "sha256")
        # As it arrives: a cut would lose the start of a chunk that is still being gathered.
        async for chunk in response.aiter_raw():
            if not self.here and _PAGE.match(chunk):
                raise self.refused("it sent a web page, not the file", _PAGE_REMEDY, discard=True)
            self.handle.write(chunk)
            digest.update(chunk)
            self.here += len(chunk)
            if self.source.size is not None and self.here > self.source.size:
                raise self.refused(f"it sends more than {self.source.size:,} bytes", discard=True)
            if self.progress is not None:
                self.progress(self.source.name, self.here, total)
            # A fast server would never let the deadline's timer run.
            await asyncio.sleep(0)
        self.handle.flush()
        os.fsync(self.handle.fileno())
        return digest.hexdigest()

    def _start_over(self) -> None:
        self.handle.truncate(0)
        self.here = 0

    def _forget(self) -> None:
        self.part.unlink(missing_ok=True)
        self.validator.unlink(missing_ok=True)

    def _part_bytes(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _read_validator(self) -> str | None:
        """Return the server's validator of the part; None when it is of another source."""
        try:
            known = json.loads(self.validator.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        same = isinstance(known, dict) and known | {"tag": ""} == self._origin()
        return str(known.get("tag", "")) if same else None

    def _write_validator(self, tag: str) -> None:
        write_atomic(self.validator, json.dumps(self._origin() | {"tag": tag}).encode())

    def _origin(self) -> dict[str, Any]:
        return {"address": self.address, "source": asdict(self.source), "tag": ""}


def is_page(response: httpx.Response) -> bool:
    """Whether a server declares its response as a web page."""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind in ("text/html", "application/xhtml+xml")


def _is_protected(url: httpx.URL) -> bool:
    return url.scheme == "https" or url.host in ("127.0.0.1", "::1", "localhost")


def system_trust() -> ssl.SSLContext:
    """Return the machine's own trust store, which may hold a company's or a lab's authority."""
    context = ssl.create_default_context()
    if _SYSTEM_TRUST.exists():
        context.load_verify_locations(_SYSTEM_TRUST)
    return context


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
        return f"sha256:{hashlib.sha256(asyncio.run(_get(address))).hexdigest()}"
    except TimeoutError:
        reason = f"no response in {_MANIFEST_S:g} s: try later"
    except httpx.HTTPStatusError as error:
        reason = (
            f"it returned {error.response.status_code}: check that models.yml has its name in the "
            "registry"
        )
    except httpx.HTTPError as error:
        reason = (
            f"no response ({error}): check that this machine can reach it, or name a mirror prefix "
            f"in {_OVERLAY}"
        )
    raise SourceError(f"model {model_id} from {shown(address)}: {reason}")


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
