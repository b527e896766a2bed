"""An answer that is made while it is sent, to a client that is there and reads."""

import asyncio
from abc import abstractmethod

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from hearth_serving.answers import answer, outcome_of, unforeseen
from hearth_serving.errors import ServiceError
from hearth_serving.gone import unless_gone
from hearth_serving.limits import Limits


class Stalled(Exception):
    """The client does not read what was written."""


class Made(Response):
    """One answer: nothing is made before somebody listens, or once the client has left."""

    def __init__(self, limits: Limits, late: str) -> None:
        """Answer within `limits`; `late` says what did not end in time."""
        self._limits, self._late = limits, late
        self._started = False
        self.background = None

    @abstractmethod
    async def make(self, send: Send) -> None:
        """Make all of the answer, and `write` it."""

    @abstractmethod
    def broken_off(self, error: ServiceError) -> tuple[bytes, str] | None:
        """Return what a begun answer says of an error, and of what kind; None: it has no end."""

    @abstractmethod
    def ended(self, outcome: str) -> None:
        """Note the end: `done`, `left`, or what `outcome_of` an error says."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Make the answer, until it is whole or the client has left."""
        outcome = "left"
        try:
            if not await unless_gone(receive, self._in_time(send)):
                outcome = "done"
        except ServiceError as error:
            outcome = outcome_of(error)
            await self._break_off(error, send)
        except Stalled:
            pass  # without its end, the answer is closed by whoever serves us
        except Exception as error:
            outcome = "failed"
            await self._break_off(unforeseen(error), send)
        finally:
            self.ended(outcome)

    async def write(
        self, send: Send, data: bytes, kind: str, *, last: bool = False, length: int | None = None
    ) -> None:
        """Write a part of the answer; `length` is the whole's in bytes, where it is known."""
        try:
            async with asyncio.timeout(self._limits.write_s):
                if not self._started:
                    self._started = True
                    await send(_head(kind, length))
                await send({"type": "http.response.body", "body": data, "more_body": not last})
                # A write that need not wait gives nobody else a turn.
                await asyncio.sleep(0)
        except TimeoutError:
            raise Stalled from None

    async def _in_time(self, send: Send) -> None:
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                await self.make(send)
        except TimeoutError:
            message = f"{self._late} within {self._limits.timeout_s:g} s"
            raise ServiceError(message, status=504, code="total_timeout") from None

    async def _break_off(self, error: ServiceError, send: Send) -> None:
        """Say what went wrong while it can still be said."""
        if not self._started:
            await answer(error)({"type": "http"}, _nothing, send)
        elif said := self.broken_off(error):
            await self.write(send, *said, last=True)


def _head(kind: str, length: int | None) -> Message:
    # The last one tells nginx and its like not to gather what we send.
    headers = {"content-type": kind, "cache-control": "no-store", "x-accel-buffering": "no"}
    if length is not None:
        headers["content-length"] = str(length)
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http.response.start", "status": 200, "headers": raw}


async def _nothing() -> Message:
    return {"type": "http.disconnect"}
