"""Responses that are produced while they are sent, to a client that is connected and reads."""

import asyncio
from abc import abstractmethod
from collections.abc import Coroutine, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from hearth_serving.errors import ServiceError, error_response, log_unexpected, outcome_of
from hearth_serving.limits import Limits


class Stalled(Exception):
    """The client does not read what was written."""


async def run_while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> bool:
    """Run `work`, and cancel it when the client disconnects; return whether it disconnected."""
    task = asyncio.ensure_future(work)
    disconnected = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        return not task.done()
    finally:
        for each in (task, disconnected):
            each.cancel()
        await asyncio.gather(task, disconnected, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class StreamedResponse(Response):
    """A response whose work starts with its sending and ends when the client disconnects."""

    def __init__(self, limits: Limits, late: str) -> None:
        """Respond within `limits`; `late` starts the message about a missed deadline."""
        self._limits, self._late = limits, late
        self._started = False
        self._more_headers: dict[str, str] = {}
        self.background = None

    @abstractmethod
    async def produce(self, send: Send) -> None:
        """Produce the whole response, and `write` it."""

    @abstractmethod
    def interrupted(self, error: ServiceError) -> tuple[bytes, str] | None:
        """Return the last data of a response that an error interrupts, and its media type.

        None leaves the response without an end.
        """

    @abstractmethod
    def ended(self, outcome: str) -> None:
        """Note the end: `done`, `left`, or the result of `outcome_of` an error."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond until all is sent or the client has disconnected."""
        outcome = "left"
        try:
            if not await run_while_connected(receive, self._in_time(send)):
                outcome = "done"
        except ServiceError as error:
            outcome = outcome_of(error)
            await self._interrupt(error, send)
        except Stalled:
            pass  # uvicorn closes a response without an end
        except Exception as error:
            outcome = "failed"
            await self._interrupt(log_unexpected(error), send)
        finally:
            self.ended(outcome)

    async def write(
        self,
        send: Send,
        data: bytes,
        media_type: str,
        *,
        last: bool = False,
        length: int | None = None,
    ) -> None:
        """Write a part of the response; `length` is the whole's in bytes, where it is known."""
        try:
            async with asyncio.timeout(self._limits.write_s):
                if not self._started:
                    self._started = True
                    await send(_start(media_type, length, self._more_headers))
                await send({"type": "http.response.body", "body": data, "more_body": not last})
                # A write that need not wait lets no other task run.
                await asyncio.sleep(0)
        except TimeoutError:
            raise Stalled from None

    async def _in_time(self, send: Send) -> None:
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                await self.produce(send)
        except TimeoutError:
            message = f"{self._late} within {self._limits.timeout_s:g} s"
            raise ServiceError(message, status=504, code="total_timeout") from None

    async def _interrupt(self, error: ServiceError, send: Send) -> None:
        """Report an error as the response, or as its last data once it has started."""
        if not self._started:
            await error_response(error)({"type": "http"}, _no_message, send)
        elif data := self.interrupted(error):
            await self.write(send, *data, last=True)


def _start(media_type: str, length: int | None, more: Mapping[str, str]) -> Message:
    # nginx and other proxies do not buffer a response with the last header.
    headers = {"content-type": media_type, "cache-control": "no-store", "x-accel-buffering": "no"}
    headers.update(more)
    if length is not None:
        headers["content-length"] = str(length)
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http.response.start", "status": 200, "headers": raw}


async def _no_message() -> Message:
    return {"type": "http.disconnect"}
