"""One HTTP request for the rest of a file."""

import asyncio
import hashlib
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import httpx

from hearth.sources.model import Limits, Progress, Source

# How a web page begins, where a file was asked for: a network's sign-in page, or "not found".
_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype\s+html|html[\s>])", re.IGNORECASE)
_PAGE_REMEDY = (
    "open the address in a browser: a network may want you to sign in, a proxy may refuse it, or "
    "the file has moved"
)

# The server is busy or broken for now; everything else says no for good.
_TEMPORARY = {408, 425, 429, 500, 502, 503, 504}


class Again(Exception):
    """It broke off; another try may bring the rest."""

    def __init__(self, text: str, after_s: float = 0) -> None:
        """Say why, and how long the server asks to wait."""
        super().__init__(text)
        self.after_s = after_s


class Refused(Exception):
    """Another try would bring the same."""

    def __init__(self, text: str, remedy: str = "", *, discard: bool = False) -> None:
        """Say why, what to do if it is not the usual, and whether what is here is worthless."""
        super().__init__(text)
        self.remedy = remedy
        self.discard = discard


@dataclass(slots=True)
class Transfer:
    """A file on its way: what is here already, and the request for the rest.

    `tag` is the server's validator of what is here ("" if it named none).
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
        """Fetch the rest and give the sha256 of the whole; raises Again or Refused."""
        self.here = self.handle.seek(0, os.SEEK_END)
        # Without a validator only a known digest can tell pieces of two files apart.
        if self.here and not self.tag and self.source.sha256 is None:
            self._start_over()
        try:
            async with client.stream("GET", self.address, headers=self._headers()) as response:
                self._judge(response)
                return await self._take(response)
        except httpx.TimeoutException:
            raise Again(f"nothing arrived for {self.limits.stall_s:g} s") from None
        except httpx.TooManyRedirects:
            raise Refused("it redirects in a circle") from None
        except httpx.UnsupportedProtocol:
            raise Refused("no address of the kind https://…") from None
        except httpx.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise Refused(
                    "its certificate is not trusted here",
                    "check the machine's date, or add your own authority to the machine's store",
                ) from None
            raise Again(f"no connection ({error})") from None
        except httpx.HTTPError as error:
            raise Again(f"the connection broke ({error or type(error).__name__})") from None

    def _headers(self) -> dict[str, str]:
        # Compressed on the way, the bytes would not be those of the digest.
        headers = {"Accept-Encoding": "identity", "User-Agent": "hearth"}
        if self.here:
            headers["Range"] = f"bytes={self.here}-"
            if self.tag:
                headers["If-Range"] = self.tag
        return headers

    def _judge(self, response: httpx.Response) -> None:
        """Decide from status and headers whether, and where, to write what follows."""
        hops = [*response.history, response]
        if self.address.startswith("https:") and any(hop.url.scheme != "https" for hop in hops):
            raise Refused("it redirects from https to http")
        if self.source.sha256 is None and not _is_protected(response.url):
            raise Refused("no digest is known yet, and by plain http anybody could change the file")
        status = response.status_code
        if status == 416:
            self._start_over()
            raise Again("it has less than what is here already")
        if status in _TEMPORARY:
            wait = response.headers.get("Retry-After", "")
            raise Again(f"it answered {status}", float(wait) if wait.isdecimal() else 0)
        if status not in (200, 206):
            raise Refused(f"it answered {status}")
        if is_page(response):
            raise Refused("it answered with a web page, not with the file", _PAGE_REMEDY)
        if status == 206 and not self._continues(response):
            self._start_over()
            raise Again("it sent another part than the one asked for")
        if status == 200 and self.here:
            self._start_over()
        self._expect(response)

    def _continues(self, response: httpx.Response) -> bool:
        return str(response.headers.get("Content-Range", "")).startswith(f"bytes {self.here}-")

    def _expect(self, response: httpx.Response) -> None:
        """Work out the whole size, and see whether it is right and has room."""
        length = response.headers.get("Content-Length", "")
        self.total = self.here + int(length) if length.isdecimal() else self.source.size
        chunked = "chunked" in response.headers.get("Transfer-Encoding", "")
        if self.total is None and not chunked and self.source.sha256 is None:
            # A cut would look like the end, and its digest would be believed ever after.
            raise Refused("it does not say how long the file is, and no digest is known yet")
        if self.source.size is not None and self.total != self.source.size:
            raise Refused(
                f"it has {self.total:,} bytes, expected {self.source.size:,}", discard=True
            )
        folder = Path(self.handle.name).parent
        free = shutil.disk_usage(folder).free
        lacking = (self.total or 0) - self.here + self.limits.spare_bytes
        if free < lacking:
            raise Refused(
                f"{folder} has {free:,} bytes free, {lacking:,} are needed",
                "make room on this disk, then run this again",
            )
        if not self.here:
            etag = response.headers.get("ETag", "")
            # A weak tag promises the same meaning, not the same bytes.
            strong = "" if etag.startswith("W/") else etag
            self.remember(strong or response.headers.get("Last-Modified", ""))

    async def _take(self, response: httpx.Response) -> str:
        """Write and digest what comes; the file is on the disk when this returns."""
        digest = self._digest_of_what_is_here()
        # As it arrives: of a chunk that is still being gathered, a cut would lose the beginning.
        async for chunk in response.aiter_raw():
            if not self.here and _PAGE.match(chunk):
                raise Refused("what came is a web page, not the file", _PAGE_REMEDY, discard=True)
            self.handle.write(chunk)
            digest.update(chunk)
            self.here += len(chunk)
            if self.source.size is not None and self.here > self.source.size:
                raise Refused(f"it sends more than {self.source.size:,} bytes", discard=True)
            if self.progress is not None:
                self.progress(self.source.name, self.here, self.total)
            # A fast server would never let the deadline's timer run.
            await asyncio.sleep(0)
        self.handle.flush()
        os.fsync(self.handle.fileno())
        return digest.hexdigest()

    def _digest_of_what_is_here(self) -> "hashlib._Hash":
        if not self.here:
            return hashlib.sha256()
        with open(self.handle.name, "rb") as written:
            return hashlib.file_digest(written, "sha256")

    def _start_over(self) -> None:
        self.handle.truncate(0)
        self.here = 0


def is_page(response: httpx.Response) -> bool:
    """Whether a server says itself that it answers with a page for people."""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind in ("text/html", "application/xhtml+xml")


def _is_protected(url: httpx.URL) -> bool:
    return url.scheme == "https" or url.host in ("127.0.0.1", "::1", "localhost")
