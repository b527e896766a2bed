"""Turn a page into text in a process of its own, which may crash, loop or be taken over."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass

from hearth_fetcher.fetching import Body
from hearth_fetcher.text import TEXT_BYTES, readable
from hearth_serving.errors import ServiceError

# JSON writes most characters beyond ASCII in six bytes or more for each two of UTF-8.
_ANSWER_BYTES = 8 * TEXT_BYTES
_PASSED_ON = ("PATH", "PYTHONPATH")


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads pages, a few at once."""

    places: asyncio.Semaphore

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
            answer = await _converse(body)
        try:
            found = json.loads(answer)
            return str(found["text"]), bool(found["cut"]) or body.cut
        except (ValueError, KeyError, TypeError):
            message = f"the page is {body.media_type} that cannot be read"
            raise ServiceError(message, status=502, code="not_readable") from None


async def _converse(body: Body) -> bytes:
    """Return what the process writes, nothing if it fails; it is killed when we are cancelled."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "hearth_fetcher.text"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
    )
    assert process.stdin is not None  # noqa: S101 - for the type checker: both are pipes
    assert process.stdout is not None  # noqa: S101
    try:
        page = {"type": body.media_type, "charset": body.charset, "url": body.url}
        process.stdin.write(json.dumps(page).encode() + b"\n" + body.content)
        process.stdin.close()
        answer = bytearray()
        while len(answer) <= _ANSWER_BYTES and (chunk := await process.stdout.read(65536)):
            answer += chunk
        if len(answer) <= _ANSWER_BYTES:
            await process.wait()
        return bytes(answer)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
