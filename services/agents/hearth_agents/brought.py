"""What a conversation brings along that its person did not write: documents, pictures, answers.

A chat puts the passages of a document into the person's own message, and an answer of any model
into the conversation. The broker hears of them, so that an approval shows them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hearth_agents.outside import quoted

# Open WebUI's template has the passages in <context>; one of a house's own may have <source> only.
# The last end counts: a document may have an end of its own in it.
_BLOCKS = [
    re.compile(pattern, re.DOTALL | re.IGNORECASE)
    for pattern in (r"<context>.*</context>", r"<source\b.*</source>")
]
_NAME = re.compile(r'<source\b[^>]*\bname="([^"\n]{1,100})"', re.IGNORECASE)
_NAMES = 5
PICTURE, ANSWER = "a picture in the chat", "an answer in the chat, perhaps of another model"
# What the broker compares of one text, and takes of all.
MOST_CHARS, MOST_PARTS = 100_000, 20


@dataclass(frozen=True, slots=True)
class Brought:
    """A part of a conversation: where it came from, and its text; not `whole` if it was cut."""

    origin: str
    text: str
    whole: bool = True


def block_of(text: str) -> tuple[int, int] | None:
    """Return where the passages of documents are in a message, if it has any."""
    found = next(filter(None, (pattern.search(text) for pattern in _BLOCKS)), None)
    return found.span() if found else None


def marked(text: str) -> str:
    """Return a message whose passages of documents are marked as data."""
    if (block := block_of(text)) is None:
        return text
    start, end = block
    return text[:start] + quoted(text[start:end], _documents(text[start:end])) + text[end:]


def _documents(block: str) -> str:
    names = list(dict.fromkeys(_NAME.findall(block)))
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return "documents in the chat" + (f": {', '.join(names[:_NAMES])}{more}" if names else "")


def brought_by(messages: Sequence[Any], is_ours: Callable[[str], bool]) -> list[Brought]:
    """Return what others wrote in a conversation, one text for each origin, within bounds.

    `is_ours` tells whether an answer was written by the agents themselves: what those had read is
    known to the broker already.
    """
    texts: dict[str, list[str]] = {}
    for origin, text in _parts(messages, is_ours):
        known = origin if origin in texts or len(texts) < MOST_PARTS else "more in the chat"
        texts.setdefault(known, []).append(text)
    left, found = MOST_CHARS, []
    # The newest first: of what is too much, the start of the conversation goes.
    for origin, parts in reversed(texts.items()):
        whole = "\n\n".join(parts)
        kept = whole[max(0, len(whole) - left) :] if left else ""
        left -= len(kept)
        found.append(Brought(origin, kept, len(kept) == len(whole)))
    return found[::-1]


def _parts(messages: Sequence[Any], is_ours: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    for message in messages:
        if not isinstance(message, dict):
            continue
        role, content = message.get("role"), message.get("content")
        text = text_of(content)
        if role == "assistant":
            if text.strip() and not is_ours(text):
                yield ANSWER, text
            continue
        if block := block_of(text):
            inner = text[slice(*block)]
            yield _documents(inner), inner
        for part in content if isinstance(content, list) else []:
            if isinstance(part, dict) and "image" in str(part.get("type")):
                yield PICTURE, f"a picture of about {len(str(part)) * 3 // 4096} KiB"


def text_of(content: Any) -> str:
    """Return the text of a message's content."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
