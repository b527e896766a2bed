"""Whether a conversation fits into a model's context: Ollama would drop its start silently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from hearth_gateway.interfaces import GENERATING, PICTURE_TOKENS, pictures, texts
from hearth_gateway.models import names_of
from hearth_gateway.settings import Consumer, GatewayConfig, Name
from hearth_serving.errors import ServiceError

CountTokens = Callable[[str], int]
"""Returns about how many tokens a text has."""
# This part of a context is for the answer, and for the error of the count.
_ANSWER_PART = 8
# No text has so many bytes for each token, so a longer one is not counted.
_MOST_BYTES, _USUAL_BYTES = 16, 4


async def estimate(path: str, body: dict[str, Any], most: int, count: CountTokens) -> int:
    """Return about how many tokens a request has, or the longest of its texts to embed.

    `most` is the largest context that it may go to, in tokens.
    """
    parts = list(texts(body))
    wholes = [parts] if path in GENERATING else [[part] for part in parts]
    # Counting 100 kB takes a small machine a tenth of a second.
    found = await asyncio.to_thread(lambda: [_tokens(whole, most, count) for whole in wholes])
    return max(found, default=0) + PICTURE_TOKENS * pictures(body)


def _tokens(parts: Sequence[str], most: int, count: CountTokens) -> int:
    size = sum(len(part.encode(errors="replace")) for part in parts)
    # A token has at least one byte: a short text need not be counted.
    if size <= most // _ANSWER_PART:
        return size
    if size > most * _MOST_BYTES:
        return size // _USUAL_BYTES
    return sum(map(count, parts))


def largest(members: Iterable[str], config: GatewayConfig) -> int | None:
    """Return the largest known context of these members in tokens, None if none is known."""
    contexts = (config.names[member].info.context for member in members)
    return max(filter(None, contexts), default=None)


def left(member: str, tokens: int | None, config: GatewayConfig) -> int | None:
    """Return the tokens that are left for an answer of `member`, None if that is unchecked."""
    context = config.names[member].info.context
    return None if context is None or tokens is None else context - tokens


def fitting(name: Name, tokens: int, config: GatewayConfig) -> Name | None:
    """Return the name with those members that `tokens` fit into, None without any."""
    members = tuple(member for member in name.members if _fits(member, tokens, config))
    return replace(name, members=members) if members else None


def _fits(member: str, tokens: int, config: GatewayConfig) -> bool:
    context = config.names[member].info.context
    return context is None or tokens <= _room(context)


def _room(context: int) -> int:
    return context - context // _ANSWER_PART


def too_long(
    path: str, name: Name, tokens: int, consumer: Consumer, config: GatewayConfig
) -> ServiceError:
    """Return the error for what fits into no member, with both numbers and the next step."""
    context = largest(name.members, config) or 0
    what = "this conversation has" if path in GENERATING else "a text has"
    rest = f" of its {context:,}, the rest is for the answer" if path in GENERATING else ""
    longer = [
        other.name
        for other in names_of(consumer, config)
        if other.info.talks == name.info.talks
        and not other.servers
        and fitting(other, tokens, config)
    ]
    cure = "shorten it or start a new one" if path in GENERATING else "split it"
    if longer:
        cure += f", or use one with more room: {', '.join(longer)}"
    return ServiceError(
        f"{what} about {tokens:,} tokens, and {name.name} takes {_room(context):,}{rest}; {cure}",
        code="context_length_exceeded",
        param="messages" if path in GENERATING else "input",
    )
