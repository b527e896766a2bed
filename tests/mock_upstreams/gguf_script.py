"""What a made-up model does on purpose: it thinks, closes its thought, calls tools, or answers.

Real attention finds out whether the prompt offers a known tool or contains a tool's result. All
else follows from the last token: each token of a chain has a column of its own, which its
successor's output reads. So the parsers behind it get exactly the text that a real model sends.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import gguf

from tests.mock_upstreams.gguf_tensors import Floats, Halves

NEWLINE, BLANK_LINE = "<0x0A>", "\n\n"
CONTROLS = ("<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
CLOSE = "</think>"
# The tools that a model calls when a request offers them; the second only beside the first.
TOOL, SECOND_TOOL = "get_weather", "get_time"
ANSWER = ("The", " result", " equals", " 4.")
# More than the few tokens that a small request allows: then an answer ends in thought alone.
STEPS = 40
# Logits: what comes next for sure, and what never comes.
SURE, NEVER = 60.0, -30.0
# Two conditions together allow a token, one of them alone does not.
BARRED, CONDITION = -150.0, 110.0
# Any frequency lower than one turn in a million tokens: the search ignores distances.
ROPE_BASE = 1e9
_SHARPNESS = 2.0


@dataclass(frozen=True, slots=True)
class CallStyle:
    """How a model's parser expects a tool call: three tokens, and one more for a second call.

    `result` is the token by which a prompt shows a tool's result.
    """

    opening: str
    call: str
    closing: str
    second: str
    result: str


_JSON = '{{"name": "{0}", "{1}": {{"city": "Paris"}}}}'
_XML = "\n<function={0}>\n<parameter=city>\nParis\n</parameter>\n</function>\n"
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
XML = CallStyle(
    _OPEN,
    _XML.format(TOOL),
    _CLOSE,
    f"\n{_OPEN}{_XML.format(SECOND_TOOL)}{_CLOSE}",
    "</tool_response>",
)
HERMES = CallStyle(
    _OPEN,
    f"\n{_JSON.format(TOOL, 'arguments')}\n",
    _CLOSE,
    f"\n{_OPEN}\n{_JSON.format(SECOND_TOOL, 'arguments')}\n{_CLOSE}",
    "</tool_response>",
)
# Llama's has no tags, and Ollama reads one call of it.
LLAMA = CallStyle("{", _JSON.format(TOOL, "parameters")[1:-1], "}", "", "ipython")


@dataclass(frozen=True, slots=True)
class Script:
    """What a model does; by default it only answers with random words.

    `start` is the token after which an answer starts: the end of the prompt, or of the thought.
    `answer` is the whole answer where it is not random.
    """

    thinks: bool = False
    endless: bool = False
    calls: CallStyle | None = None
    start: str = BLANK_LINE
    answer: tuple[str, ...] = ()


ANSWERS = Script()


def thought(script: Script) -> list[str]:
    """Return the tokens of a model's thought, which no answer contains."""
    return [f" step {number}," for number in range(1, STEPS + 1)] if script.thinks else []


def thought_text() -> str:
    """Return a whole thought, as a parser gives it to the caller."""
    return "".join(thought(Script(thinks=True)))


def special_tokens(script: Script) -> dict[str, int]:
    """Return the tokens beside bytes and words with their types."""
    call = script.calls
    calls = [call.opening, call.call, call.closing, call.second, call.result] if call else []
    tools = [TOOL, SECOND_TOOL] if call else []
    plain = [BLANK_LINE, "<think>", CLOSE, *thought(script), *calls, *tools, *script.answer]
    # A one-character token would also be found inside ordinary text, which is harmless.
    defined = dict.fromkeys((token for token in plain if token), int(gguf.TokenType.USER_DEFINED))
    return dict.fromkeys(CONTROLS, int(gguf.TokenType.CONTROL)) | defined


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a script from `first` on: one per token of `marked`, then what is found."""

    first: int
    marked: tuple[str, ...]
    sought: tuple[str, ...]

    @property
    def end(self) -> int:
        """The first column after them."""
        return self.first + len(self.marked) + len(self.sought)

    def of(self, token: str) -> int:
        """Return the column that is set while this is the last token."""
        return self.first + self.marked.index(token)

    def found(self, token: str) -> int:
        """Return the column that is set once the prompt contains this token."""
        return self.first + len(self.marked) + self.sought.index(token)


def columns(first: int, script: Script) -> Columns:
    """Return where a script's columns are."""
    sought = (TOOL, SECOND_TOOL, script.calls.result) if script.calls else ()
    before = [token for pair in chains(script) for token in pair[:1]]
    return Columns(first, tuple(dict.fromkeys([*before, *sought, script.start])), sought)


def chains(script: Script) -> list[tuple[str, str]]:
    """Return pairs of a token and the one that follows it for sure; "" ends the answer."""
    steps = thought(script)
    sequences: list[list[str]] = []
    if steps:
        after = steps[:1] if script.endless else [CLOSE, BLANK_LINE]
        sequences.append([NEWLINE, *steps, *after])
    if call := script.calls:
        sequences.append([call.opening, call.call, call.closing, ""])
        if call.second:
            sequences.append([call.second, ""])
    if script.answer:
        sequences.append([script.start, *script.answer, ""])
    return [pair for each in sequences for pair in itertools.pairwise(each)]


def mark(embedding: Floats, tokens: list[str], place: Columns, value: float) -> None:
    """Set the column of each marked token in the embedding."""
    for token in place.marked:
        embedding[tokens.index(token), place.of(token)] = value


def search(tensors: dict[str, Halves], place: Columns, heads: int, constant: int) -> None:
    """Make one head of a block per sought token find it wherever it is in the prompt."""
    names = ("attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight")
    query, key, value, output = (tensors[name] for name in names)
    size = len(query) // heads
    for head, token in enumerate(place.sought):
        own = slice(head * size, (head + 1) * size)
        query[own], key[own], value[own], output[:, own] = 0, 0, 0, 0
        # The last pair of a head turns slowest.
        slow = (head + 1) * size - 1
        query[slow, constant] = key[slow, place.of(token)] = _SHARPNESS
        value[slow, place.of(token)] = output[place.found(token), slow] = 1


def decide(
    output: Floats, tokens: list[str], place: Columns, script: Script, ends: tuple[int, int]
) -> None:
    """Write what follows which token; `ends` are the end's token and the constant column."""
    end, constant = ends
    for before, after in chains(script):
        output[tokens.index(after) if after else end, place.of(before)] += SURE
    if (call := script.calls) is None:
        return
    _allow(output[tokens.index(call.opening)], constant, place, script.start, TOOL)
    output[tokens.index(call.opening), place.found(call.result)] = -CONDITION
    if call.second:
        row = output[tokens.index(call.second)]
        _allow(row, constant, place, call.closing, SECOND_TOOL)


def _allow(row: Floats, constant: int, place: Columns, after: str, offered: str) -> None:
    """Let a token follow another one where a tool is offered, and nowhere else."""
    row[constant], row[place.of(after)], row[place.found(offered)] = BARRED, CONDITION, CONDITION
