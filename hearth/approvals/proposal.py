"""What is proposed, as the bytes that a person approves."""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from hearth.approvals import ApprovalError

LIFE_S = 900
EXCERPT = 200
# What a request may bring along from outside.
MOST_READS, READS_CHARACTERS = 101, 4 * 2**20
# No characters that people confuse; 26 of them are 128 bits.
_LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"
_ID_LENGTH = 26
_ID = re.compile(f"[{_LETTERS}]{{{_ID_LENGTH}}}")
# A chat that is kept; a temporary one has no page.
_CHAT = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# What a person types on the terminal.
TYPED = 6


@dataclass(frozen=True, slots=True)
class Who:
    """Who asked: the consumer is known by its key; the rest is what its program says.

    `client` is the consumer that gave a program of the house the task, `person` the name of an
    account there.
    """

    consumer: str
    agent: str = ""
    run: str = ""
    chat: str = ""
    client: str = ""
    person: str = ""

    @property
    def asker(self) -> str:
        """Who gave the task, in words for a person, and who asked on their behalf."""
        if not self.client:
            return self.consumer
        whose = f"{self.person} in {self.client}" if self.person else self.client
        return f"{whose}, by {self.consumer}"

    def chat_at(self, chats: Mapping[str, str]) -> str:
        """Return the URL of the chat; empty if it is in none of these sites by their consumers."""
        site = chats.get(self.client or self.consumer)
        return f"https://{site}/c/{self.chat}" if site and _CHAT.fullmatch(self.chat) else ""


@dataclass(frozen=True, slots=True)
class Read:
    """What a run read from outside before it asked: from where, when (a Unix time) and the text.

    Of one that is not `whole`, only the start is known.
    """

    origin: str
    at: int
    text: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The start of one read, as a proposal keeps it."""

    origin: str
    at: int
    excerpt: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Mark:
    """A text in an argument that also occurs in what the run read from outside."""

    argument: str
    origin: str
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a plan: text of the house or of the agent, or a diff.

    Sections keep the agent's text apart: it cannot imitate the heading of another section.
    """

    title: str
    text: str
    kind: Literal["text", "warning", "diff"] = "text"
    author: Literal["house", "agent"] = "house"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One change of the house that waits for a person.

    `base` has a text for each thing that the change depends on; the change is carried out only
    while all are the same. `made` and `expires` are Unix times.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    id: str
    verb: str
    arguments: Mapping[str, Any]
    summary: str
    plan: tuple[Section, ...]
    base: Mapping[str, str]
    who: Who
    reads: tuple[Excerpt, ...]
    taint: tuple[Mark, ...]
    made: int
    expires: int

    def canonical(self) -> bytes:
        """Return the bytes that are stored, and whose digest is approved."""
        content = asdict(self)
        # As proposals were stored that know nothing about them.
        content["who"] = {k: v for k, v in content["who"].items() if v or k not in _LATER}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return text.encode()


_LATER = ("client", "person")
_PROPOSAL = TypeAdapter(Proposal)


def new_id() -> str:
    """Return 128 random bits that a person can read from a page and type."""
    return "".join(secrets.choice(_LETTERS) for _ in range(_ID_LENGTH))


def checked_id(text: str) -> str:
    """Return an ID, or raise ApprovalError: nothing else becomes part of a path."""
    if not _ID.fullmatch(text):
        raise ApprovalError(f"an approval's ID has {_ID_LENGTH} letters and digits, not {text!r}")
    return text


def digest_of(stored: bytes) -> str:
    """Return the SHA-256 of a stored proposal, in hexadecimal digits."""
    return hashlib.sha256(stored).hexdigest()


def parse(stored: bytes) -> Proposal:
    """Return the proposal in these bytes.

    Raises:
        ApprovalError: they are not the bytes that `canonical` made.
    """
    try:
        proposal = _PROPOSAL.validate_json(stored)
    except ValidationError:
        proposal = None
    # Bytes with the same meaning would have another digest than the one that was shown.
    if proposal is None or proposal.canonical() != stored:
        raise ApprovalError("the stored proposal is damaged or was edited")
    return proposal


def excerpts(reads: tuple[Read, ...]) -> tuple[Excerpt, ...]:
    """Return the start of each read, on one line."""
    return tuple(Excerpt(_line(one.origin), one.at, _line(one.text), one.whole) for one in reads)


def _line(text: str) -> str:
    # Half a surrogate pair cannot be stored.
    whole = text[:4000].encode("utf-8", "replace").decode()
    return " ".join(whole.split())[:EXCERPT]
