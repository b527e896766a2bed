"""Fetch one source: resumed, verified, and named only when it is complete.

docs/decisions/036 has the reasons for a downloader of our own.
"""

import asyncio
import os
import re
import shutil
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from hearth.catalogue.house import Source
from hearth.files import LockHeldError, locked, sync_folder
from hearth.progress import report_bytes
from hearth.sources import (
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
MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
_MANIFEST_LIMITS = Limits(timeout_s=30, attempts=2, spare_bytes=0, max_bytes=1 << 20)
# The start of a web page in place of a file: a network's sign-in page, or "not found".
_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype\s+html|html[\s>])", re.IGNORECASE)
_PAGE_TYPES = ("text/html", "application/xhtml+xml")
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
    *,
    accept: str = "*/*",
    remedy: str = "",
) -> Fetched:
    """Fetch `source` into the folder `into` and verify its sha256; a local file stays in place.

    A file that is there already is verified, not fetched. A killed run's part is resumed. It runs
    its own event loop: from a running one, call it in a thread.

    Raises:
        SourceError: it cannot be fetched, or its digest is not that of the lock file; in one line.
    """
    address = address_of(source.url, mirrors or {})
    usual = f"name another address, a mirror prefix or a local file for {source.name} in {_OVERLAY}"
    limits = limits or Limits()
    job = _Download(
        source, address, into, progress or report_bytes, limits, accept, remedy or usual
    )
    if address.startswith("/"):
        path = Path(address)
        if not path.is_file():
            raise job.error(f"there is no such file: put it there, or change `url` in {_OVERLAY}")
        return job.verified(path, sha256_of(path))
    into.mkdir(parents=True, exist_ok=True)
    try:
        # A download of a killed run may still be alive; two must not write one file.
        with locked(into / f".{file_name(source)}.lock", limits.stall_s * 2):
            if job.target.is_file():
                digest = sha256_of(job.target)
                if source.sha256 in (None, digest):
                    return Fetched(job.target, digest)
                job.target.unlink()
            return asyncio.run(job.run())
    except LockHeldError as error:
        raise job.error(str(error)) from None
    except TimeoutError:
        raise job.error(
            f"not ready after {limits.timeout_s:g} s: run this again, it continues from here"
        ) from None
    except OSError as error:
        raise job.error(f"cannot write to {into}: {error.strerror or error}") from None


@dataclass(frozen=True, slots=True)
class _Download:
    """The download of one source into one folder."""

    source: Source
    address: str
    into: Path
    progress: Progress
    limits: Limits
    accept: str
    remedy: str

    @property
    def target(self) -> Path:
        return self.into / file_name(self.source)

    @property
    def part(self) -> Path:
        return self.into / f"{file_name(self.source)}.part"

    @property
    def origin(self) -> Path:
        """The file with the address that the part is from, and the server's validator of it."""
        return self.part.with_name(f"{self.part.name}.origin")

    def error(self, what: str) -> SourceError:
        """Build an error with the source, its address, the reason and the remedy."""
        return SourceError(
            f"{self.source.name} {self.source.version} from {shown(self.address)}: {what}"
        )

    def refused(self, what: str, remedy: str = "", *, discard: bool = False) -> SourceError:
        """Build an error that another try would repeat; `discard` removes the worthless part."""
        if discard:
            self._forget()
        return self.error(f"{what}: {remedy or self.remedy}")

    def verified(self, path: Path, digest: str) -> Fetched:
        """Return the file if its digest is the expected one, or if none is known."""
        if self.source.sha256 in (None, digest):
            return Fetched(path, digest)
        raise self.error(
            f"its sha256 is {digest}, expected {self.source.sha256}: the file was changed or is "
            "another version: do not use it, unless you know why it changed (then `hearth lock "
            f"{self.source.name}` records it again, or {_OVERLAY} gets the new one)"
        )

    async def run(self) -> Fetched:
        """Retry until the file is complete, as long as bytes arrive and time is left."""
        limits, failures = self.limits, 0
        timeout = httpx.Timeout(limits.stall_s, connect=min(limits.stall_s, 15))
        trust = system_trust()
        # httpx bounds each read; a server that drips its headers would never end otherwise.
        async with (
            asyncio.timeout(limits.timeout_s),
            httpx.AsyncClient(timeout=timeout, follow_redirects=True, verify=trust) as client,
        ):
            while True:
                before = self._received()
                try:
                    return self._finish(joined=await self._attempt(client))
                except _RetryError as retry:
                    failures = 1 if self._received() > before else failures + 1
                    if failures >= limits.attempts:
                        raise self.error(
                            f"{retry} ({self._received():,} bytes are here, the next run "
                            "continues): run this again later, or name a mirror or a local file "
                            f"in {_OVERLAY}"
                        ) from None
                    pause = max(limits.backoff_s * 2 ** (failures - 1), retry.after_s)
                await asyncio.sleep(min(pause, limits.backoff_max_s))

    def _finish(self, *, joined: bool) -> Fetched:
        digest = sha256_of(self.part)
        try:
            fetched = self.verified(self.target, digest)
        except SourceError:
            self._forget()
            if joined:
                # Perhaps parts of two different files: only a whole download proves a mismatch.
                raise _RetryError("its parts do not belong together") from None
            raise
        self.part.replace(self.target)
        sync_folder(self.into)
        self._forget()
        return fetched

    async def _attempt(self, client: httpx.AsyncClient) -> bool:
        """Send one request, from where the last one ended; return whether it joined two parts.

        Raises:
            _RetryError: it broke off.
        """
        tag, start = self._validator(), self._received()
        # Without a validator only a known digest can tell pieces of two files apart.
        if not tag and self.source.sha256 is None:
            start = 0
        # Compressed bytes would not match the digest.
        headers = {"Accept": self.accept, "Accept-Encoding": "identity", "User-Agent": "hearth"}
        if start:
            headers |= {"Range": f"bytes={start}-"} | ({"If-Range": tag} if tag else {})
        try:
            async with client.stream("GET", self.address, headers=headers) as response:
                start = start if self._continues(response, start) else 0
                total = self._expected_bytes(response, start)
                await self._receive(response, start, total)
        except httpx.TimeoutException:
            raise _RetryError(f"nothing arrived for {self.limits.stall_s:g} s") from None
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
        return start > 0

    def _continues(self, response: httpx.Response, start: int) -> bool:
        """Return whether an acceptable response continues the part, or sends the whole file."""
        hops = [*response.history, response]
        if self.address.startswith("https:") and any(hop.url.scheme != "https" for hop in hops):
            raise self.refused("it redirects from https to http")
        if self.source.sha256 is None and not _is_protected(response.url):
            raise self.refused("no digest is known yet, and plain http does not protect the file")
        status = response.status_code
        if status == 416:
            self._forget()
            raise _RetryError("it has fewer bytes than were received already")
        if status in _TEMPORARY:
            wait = response.headers.get("Retry-After", "")
            raise _RetryError(f"it returned {status}", float(wait) if wait.isdecimal() else 0)
        if status not in (200, 206):
            raise self.refused(f"it returned {status}")
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind in _PAGE_TYPES:
            raise self.refused("it returned a web page, not the file", _PAGE_REMEDY)
        sent = response.headers.get("Content-Range", "")
        if status == 206 and not sent.startswith(f"bytes {start}-"):
            self._forget()
            raise _RetryError("it sent another part than the requested one")
        return status == 206

    def _expected_bytes(self, response: httpx.Response, start: int) -> int | None:
        """Return the whole size, which must be that of the lock file and fit on the disk."""
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdecimal() else self.source.size
        chunked = "chunked" in response.headers.get("Transfer-Encoding", "")
        if total is None and not chunked and self.source.sha256 is None:
            # A cut would look like the end, and its digest would be recorded.
            raise self.refused("it does not send the file's length, and no digest is known yet")
        if self.source.size is not None and total != self.source.size:
            raise self.refused(
                f"it has {total:,} bytes, expected {self.source.size:,}", discard=True
            )
        free = shutil.disk_usage(self.into).free
        needed = (total or 0) - start + self.limits.spare_bytes
        if free < needed:
            raise self.refused(
                f"{self.into} has {free:,} bytes free, {needed:,} are needed",
                "make room on this disk, then run this again",
            )
        return total

    async def _receive(self, response: httpx.Response, start: int, total: int | None) -> None:
        """Write the body after the first `start` bytes; the file is on the disk at the end."""
        if not start:
            self._forget()
            etag = response.headers.get("ETag", "")
            # A weak tag promises the same meaning, not the same bytes.
            strong = "" if etag.startswith("W/") else etag
            tag = strong or response.headers.get("Last-Modified", "")
            self.origin.write_text(f"{shown(self.address)}\n{tag}", encoding="utf-8")
        received, most = start, self.source.size or self.limits.max_bytes
        with self.part.open("ab") as part:
            # As it arrives: a cut would lose the start of a chunk that is still being gathered.
            async for chunk in response.aiter_raw():
                if not received and _PAGE.match(chunk):
                    raise self.refused(
                        "it sent a web page, not the file", _PAGE_REMEDY, discard=True
                    )
                part.write(chunk)
                received += len(chunk)
                if received > most:
                    raise self.refused(f"it sends more than {most:,} bytes", discard=True)
                self.progress(self.source.name, received, total)
                # A fast server would never let the deadline's timer run.
                await asyncio.sleep(0)
            part.flush()
            os.fsync(part.fileno())

    def _forget(self) -> None:
        self.part.unlink(missing_ok=True)
        self.origin.unlink(missing_ok=True)

    def _received(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _validator(self) -> str:
        """Return the server's validator of the part; "" if none is known for this address."""
        if not self.origin.exists():
            return ""
        address, _, tag = self.origin.read_text(encoding="utf-8").partition("\n")
        return tag if address == shown(self.address) else ""


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
    manifest = Source("model", model_id, manifest_address(model_id))
    remedy = f"check its name in models.yml, or name a mirror prefix in {_OVERLAY}"
    with tempfile.TemporaryDirectory(prefix="hearth-") as into:
        found = fetch(
            *(manifest, Path(into), mirrors, None, _MANIFEST_LIMITS),
            accept=MANIFEST_TYPE,
            remedy=remedy,
        )
    return f"sha256:{found.sha256}"
