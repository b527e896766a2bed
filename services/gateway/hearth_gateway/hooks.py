"""A hook in LiteLLM: only LiteLLM knows whether a member ended its stream or broke off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from litellm.integrations.custom_logger import CustomLogger


class BrokenOff(Exception):
    """The member's connection ended before its answer did."""

    status_code = 502


class WholeStreams(CustomLogger):  # type: ignore[misc]
    """Raises an error where LiteLLM makes up `finish_reason: stop` for a cut stream."""

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Pass chunks on until one ends an answer that the member did not end."""
        async for chunk in response:
            if _ends(chunk) and not _member_ended(response):
                raise BrokenOff("the model broke off in the middle of its answer")
            yield chunk


def _ends(chunk: Any) -> bool:
    if isinstance(chunk, bytes):  # the interface for messages; this line is in no text, unescaped
        return b"event: message_delta\n" in chunk
    return any(getattr(choice, "finish_reason", None) for choice in _choices(chunk))


def _member_ended(response: Any) -> bool:
    # LiteLLM keeps the member's chunks in `chunks`, without its made-up end.
    chunks = getattr(response, "chunks", None)
    return not isinstance(chunks, list) or any(_ends(chunk) for chunk in reversed(chunks))


def _choices(chunk: Any) -> list[Any]:
    return getattr(chunk, "choices", None) or []


whole_streams = WholeStreams()
