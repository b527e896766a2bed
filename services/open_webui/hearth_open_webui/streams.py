"""Keep half an answer, with an error, when a model's server stops in the middle of it.

Open WebUI keeps the streamed text if the stream itself contains an error event. If the connection
breaks instead, it saves nothing of the answer and shows its HTTP library's error text.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator, Callable
from types import ModuleType
from typing import Any

# The function that passes on the responses of OpenAI-compatible servers.
MODULE, FUNCTION = "open_webui.routers.openai", "stream_wrapper"
BROKEN = "The answer broke off: the house's models were stopped or restarted. Ask again."
_EVENT = b"data: " + json.dumps({"error": {"message": BROKEN, "code": "broken_off"}}).encode()

Wrapper = Callable[..., AsyncIterator[bytes]]


def patch(module: ModuleType | None = None) -> None:
    """Make every chat stream end in an event, even if its connection breaks.

    Raises:
        AttributeError: this version of Open WebUI has no such function.
    """
    target: Any = module or importlib.import_module(MODULE)
    setattr(target, FUNCTION, unbroken(getattr(target, FUNCTION)))


def unbroken(wrapped: Wrapper) -> Wrapper:
    """Return `wrapped` with streams that end in an error event instead of breaking."""

    async def stream(response: Any, *rest: Any, **named: Any) -> AsyncIterator[bytes]:
        try:
            async for line in wrapped(response, *rest, **named):
                yield line
        except Exception as error:
            if named.get("passthrough") or not _is_connection(error):
                raise
            # On a new line: the last one may be incomplete.
            yield b"\n"
            yield _EVENT + b"\n"

    return stream


def _is_connection(error: Exception) -> bool:
    # By name: aiohttp comes with Open WebUI and is not installed for the tests.
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, OSError) or "ClientError" in kinds
