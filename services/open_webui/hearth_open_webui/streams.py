"""A model's server that is gone in the middle of an answer: half an answer is kept, and said so.

Open WebUI keeps what was streamed when the stream itself tells of trouble. When the connection
breaks instead, it writes down nothing of the answer and shows the words of its HTTP library.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator, Callable
from types import ModuleType
from typing import Any

# Who passes answers of OpenAI-like servers on, and by which function.
MODULE, FUNCTION = "open_webui.routers.openai", "stream_wrapper"
BROKEN = "The answer broke off: the house's models were stopped or restarted. Ask again."
_EVENT = b"data: " + json.dumps({"error": {"message": BROKEN, "code": "broken_off"}}).encode()

Wrapper = Callable[..., AsyncIterator[bytes]]


def mend(module: ModuleType | None = None) -> None:
    """Let every stream of a chat end in an event, also where its connection breaks.

    Raises:
        AttributeError: this version of Open WebUI passes answers on in another way.
    """
    target: Any = module or importlib.import_module(MODULE)
    setattr(target, FUNCTION, whole(getattr(target, FUNCTION)))


def whole(wrapped: Wrapper) -> Wrapper:
    """Return `wrapped`, whose streams end in an event that tells of trouble and never break."""

    async def stream(response: Any, *rest: Any, **named: Any) -> AsyncIterator[bytes]:
        try:
            async for line in wrapped(response, *rest, **named):
                yield line
        except Exception as error:
            if named.get("passthrough") or not _is_connection(error):
                raise
            # A line of its own: the last one may have come without its end.
            yield b"\n"
            yield _EVENT + b"\n"

    return stream


def _is_connection(error: Exception) -> bool:
    # By name: aiohttp is Open WebUI's, and not here where this is tested.
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, OSError) or "ClientError" in kinds
