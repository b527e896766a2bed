"""Turn a page into text in a process of its own, which may crash, loop or be taken over."""

import asyncio
import contextlib
import json
import os
import resource
import sys
from dataclasses import dataclass
from typing import IO

from hearth_fetcher.fetching import Body
from hearth_fetcher.text import TEXT_BYTES, readable
from hearth_serving.errors import ServiceError

MEMORY_BYTES, CPU_S = 512 * 1024 * 1024, 10
# JSON writes most characters beyond ASCII in six bytes or more for each two of UTF-8.
_ANSWER_BYTES = 8 * TEXT_BYTES
_PASSED_ON = ("PATH", "PYTHONPATH")


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads pages, a few at once, each in so much processor time."""

    places: asyncio.Semaphore
    cpu_s: int = CPU_S

    async def read(self, body: Body) -> tuple[str, bool]:
        """Return a page's text, and whether it was cut; raises ServiceError."""
        if not readable(body.media_type):
            if body.status >= 400 or not body.content:
                return "", False
            message = f"it is {body.media_type}; only pages, plain text and PDFs are read"
            raise ServiceError(message, status=415, code="not_text")
        if body.cut and body.media_type == "application/pdf":
            raise ServiceError("the PDF is too large to be read", status=502, code="too_large")
        async with self.places:
            answer = await self._converse(body)
        try:
            found = json.loads(answer)
            return str(found["text"]), bool(found["cut"]) or body.cut
        except (ValueError, KeyError, TypeError):
            message = f"the page is {body.media_type} that cannot be read"
            raise ServiceError(message, status=502, code="not_readable") from None

    async def _converse(self, body: Body) -> bytes:
        """Return what the process writes; it is killed when we are cancelled."""
        page = {"type": body.media_type, "charset": body.charset, "url": body.url}
        # Files in memory instead of pipes: nothing is left open when a process is killed.
        with _file("page") as given, _file("text") as written:
            given.write(json.dumps(page).encode() + b"\n" + body.content)
            given.seek(0)
            process = await asyncio.create_subprocess_exec(
                # -B: with the limit of its files it would leave broken bytecode behind.
                *(sys.executable, "-BP", "-m", "hearth_fetcher.text"),
                stdin=given,
                stdout=written,
                stderr=asyncio.subprocess.DEVNULL,
                env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            )
            try:
                self._confine(process.pid)
                await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            written.seek(0)
            return written.read(_ANSWER_BYTES)

    def _confine(self, process: int) -> None:
        limits = {
            resource.RLIMIT_AS: MEMORY_BYTES,
            resource.RLIMIT_CPU: self.cpu_s,
            resource.RLIMIT_FSIZE: _ANSWER_BYTES,
            resource.RLIMIT_CORE: 0,
        }
        with contextlib.suppress(ProcessLookupError):
            for limit, most in limits.items():
                resource.prlimit(process, limit, (most, most))


def _file(name: str) -> IO[bytes]:
    return open(os.memfd_create(name), "w+b", buffering=0)
