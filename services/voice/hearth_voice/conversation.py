"""The conversation of a call: its items, and what of the house's speech was really heard."""

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hearth_serving.errors import ServiceError, quoted
from hearth_voice.settings import SAMPLE_RATE, read

MAX_ITEMS = 2000
_HISTORY_CHARACTERS = 24_000
"""Older messages are left out of what the model reads: small models have short contexts."""

_Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
_Long = Annotated[str, StringConstraints(max_length=200_000)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["input_text", "output_text", "text", "input_audio", "output_audio", "audio"]
    text: _Long | None = None
    transcript: _Long | None = None


class _GivenItem(BaseModel):
    """An item as a client sends it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["message", "function_call", "function_call_output", "item_reference"]
    id: _Id | None = None
    role: Literal["system", "user", "assistant"] | None = None
    content: Annotated[tuple[_Part, ...], Field(max_length=100)] = ()
    call_id: _Id | None = None
    name: Annotated[str, StringConstraints(max_length=64)] = ""
    arguments: _Long = ""
    output: _Long = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of speech: its text, and how many samples of sound it has."""

    text: str
    samples: int


@dataclass(slots=True, eq=False)
class Item:
    """One entry of the conversation."""

    id: str
    kind: Literal["message", "function_call", "function_call_output"]
    role: Literal["system", "user", "assistant"] | None = None
    text: str = ""
    part: str = "input_text"
    """The type of its one part."""
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    status: Literal["in_progress", "completed", "incomplete"] = "completed"
    pieces: list[Piece] = field(default_factory=list)
    """What was synthesised of it so far."""
    heard_ms: int | None = None
    """Where its listener was interrupted; None if they were not."""

    @property
    def audio_ms(self) -> int:
        """The length of the sound that was synthesised."""
        return sum(piece.samples for piece in self.pieces) * 1000 // SAMPLE_RATE

    @property
    def heard_text(self) -> str:
        """The words that were heard, of speech that was interrupted; otherwise all."""
        return self.text if self.heard_ms is None else words_until(self.pieces, self.heard_ms)

    def as_event(self) -> dict[str, Any]:
        """Return the protocol's form."""
        head = {"id": self.id, "object": "realtime.item", "type": self.kind, "status": self.status}
        if self.kind == "function_call":
            called = {"call_id": self.call_id, "name": self.name, "arguments": self.arguments}
            return {**head, **called}
        if self.kind == "function_call_output":
            return {**head, "call_id": self.call_id, "output": self.text}
        has_text = self.part in ("input_text", "output_text")
        text = self.heard_text if self.text else None
        part = {"type": self.part, "text" if has_text else "transcript": text}
        # An item whose response has just started has no part yet.
        empty = self.role == "assistant" and self.status == "in_progress"
        return {**head, "role": self.role, "content": [] if empty else [part]}


def new_id(kind: str) -> str:
    """Return a new name for something of this kind, such as `item_4f1c…`."""
    return f"{kind}_{secrets.token_hex(10)}"


def read_item(data: object, where: str = "item") -> Item:
    """Return the item that a client sends; raises ServiceError that names the field."""
    given = read(_GivenItem, data, where)
    if given.type == "item_reference":
        message = "an item_reference is only valid in the input of a response"
        raise ServiceError(message, param=f"{where}.type", code="invalid_value")
    if given.type == "message":
        if given.role is None:
            raise _missing(f"{where}.role")
        text = " ".join(filter(None, (part.text or part.transcript for part in given.content)))
        part = "output_text" if given.role == "assistant" else "input_text"
        return Item(given.id or new_id("item"), "message", given.role, text, part)
    if given.call_id is None:
        raise _missing(f"{where}.call_id")
    if given.type == "function_call_output":
        return Item(
            given.id or new_id("item"), given.type, text=given.output, call_id=given.call_id
        )
    return Item(
        given.id or new_id("item"),
        "function_call",
        call_id=given.call_id,
        name=given.name,
        arguments=given.arguments,
    )


def _missing(param: str) -> ServiceError:
    message = f"{param} is missing"
    return ServiceError(message, param=param, code="missing_required_parameter")


class Conversation:
    """The items in their order."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}

    @property
    def last_id(self) -> str | None:
        """The last item's name."""
        return next(reversed(self._items), None)

    def get(self, item_id: str) -> Item:
        """Return an item; raises ServiceError where there is none of this name."""
        try:
            return self._items[item_id]
        except KeyError:
            message = f"there is no item {quoted(item_id)} in this conversation"
            raise ServiceError(message, param="item_id", code="item_not_found") from None

    def add(self, item: Item, after: str | None = None) -> str | None:
        """Add an item at the end, or after another one (`root`: first); return what precedes it.

        Raises ServiceError for a name that is taken, an unknown predecessor, or one item too many.
        """
        if item.id in self._items:
            message = f"an item with the name {quoted(item.id)} is there already"
            raise ServiceError(message, param="item.id", code="item_exists")
        if len(self._items) >= MAX_ITEMS:
            message = f"a conversation has at most {MAX_ITEMS} items; delete some"
            raise ServiceError(message, code="too_many_items")
        if after is None or after == self.last_id:
            before = self.last_id
            self._items[item.id] = item
            return before
        names = list(self._items)
        if after != "root":
            self.get(after)
        index = 0 if after == "root" else names.index(after) + 1
        before = names[index - 1] if index else None
        entries = list(self._items.items())
        entries.insert(index, (item.id, item))
        self._items = dict(entries)
        return before

    def delete(self, item_id: str) -> None:
        """Remove an item; raises ServiceError where there is none of this name."""
        self.get(item_id)
        del self._items[item_id]

    def items(self) -> list[Item]:
        """Return all items."""
        return list(self._items.values())


def messages(instructions: str, items: Sequence[Item]) -> list[dict[str, Any]]:
    """Return what the chat model reads: instructions, then as much of the history as fits."""
    history: list[dict[str, Any]] = []
    calls = {item.call_id: item for item in items if item.kind == "function_call"}
    for item in items:
        if item.kind == "function_call":
            continue
        if item.kind == "function_call_output":
            # Together, whatever was said between them: a call without its result, or the other way
            # round, is refused by many models.
            if call := calls.get(item.call_id):
                one = {"role": "tool", "tool_call_id": item.call_id, "content": item.text}
                called = {"role": "assistant", "content": "", "tool_calls": [_call(call)]}
                history += [called, one]
        elif text := item.heard_text.strip():
            history.append({"role": item.role, "content": text})
    return [{"role": "system", "content": instructions}, *_recent(history)]


def _call(item: Item) -> dict[str, Any]:
    function = {"name": item.name, "arguments": item.arguments or "{}"}
    return {"id": item.call_id, "type": "function", "function": function}


def _recent(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    left, first = _HISTORY_CHARACTERS, len(history)
    while first and (left := left - len(json.dumps(history[first - 1]))) > 0:
        first -= 1
    # The newest message is read in any case, and a tool's result only with its call.
    first = min(first, max(0, len(history) - 1))
    while 0 < first < len(history) and history[first]["role"] == "tool":
        first -= 1
    return history[first:]


def words_until(pieces: Iterable[Piece], heard_ms: int) -> str:
    """Return the words that were complete after so much sound.

    Within a piece, a word's share of the time is its share of the letters: the speech server
    reports times per piece, and a piece is a clause.
    """
    left, heard = heard_ms * SAMPLE_RATE / 1000, ""
    for piece in pieces:
        if left >= piece.samples:
            left -= piece.samples
            heard += piece.text
            continue
        share = left / piece.samples if piece.samples else 0.0
        characters = int(share * len(piece.text.rstrip()) + 0.5)
        part = piece.text[:characters]
        # A word that was cut off was not heard.
        if characters < len(piece.text) and not piece.text[characters].isspace():
            part = part.rpartition(" ")[0]
        return (heard + part).rstrip()
    return heard
