"""What does not fit into a model's context is refused with both numbers, never cut silently."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hearth_gateway.context import estimate, fitting, largest, left, too_long
from hearth_gateway.interfaces import CHAT, MESSAGES, PICTURE_TOKENS, RESPONSES, with_limit
from hearth_gateway.settings import Consumer, GatewayConfig, ModelInfo, Name

EMBEDDINGS = "/v1/embeddings"
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "word " * 400}}]


def name(key: str, *members: str, context: int | None = None) -> Name:
    info = ModelInfo(key, "", alias=bool(members), talks=True, leaves=False, context=context)
    return Name(key, members or (key,), 1, 2, info)


NAMES = (name("small", context=800), name("big", context=8000), name("far"))
ALIASES = (name("both", "small", "big"), name("any", "small", "far"))
CONFIG = GatewayConfig({entry.name: entry for entry in (*NAMES, *ALIASES)}, ())
OWNER = Consumer("ann", b"", frozenset(CONFIG.names))
GUEST = Consumer("bob", b"", frozenset({"small"}))


def tokens(body: dict[str, Any], path: str = CHAT, most: int = 800) -> int:
    return asyncio.run(estimate(path, body, most, lambda text: len(text.split())))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": [{"role": "user", "content": "word " * 500}]}),
        (
            CHAT,
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "word " * 500}]}]},
        ),
        (RESPONSES, {"input": "word " * 250, "instructions": "word " * 250}),
        (MESSAGES, {"system": "word " * 100, "messages": [{"content": "word " * 400}]}),
        (
            MESSAGES,
            {"messages": [{"content": [{"type": "tool_result", "content": "word " * 500}]}]},
        ),
    ],
)
def test_everything_that_a_model_reads_is_counted(path: str, body: dict[str, Any]) -> None:
    assert tokens(body, path) == 500
    assert tokens(body | {"tools": TOOLS}, path) > 900


def test_pictures_count_as_ollama_counts_them_and_their_bytes_do_not() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}}
    body = {"messages": [{"role": "user", "content": [picture, {"type": "text", "text": "hi"}]}]}
    assert tokens(body) == PICTURE_TOKENS + 2


def test_short_and_huge_texts_are_not_counted() -> None:
    def body(size: int) -> dict[str, Any]:
        return {"prompt": "x" * size}

    assert [tokens(body(100)), tokens(body(101)), tokens(body(1_000_000))] == [100, 1, 250_000]


def test_of_texts_to_embed_the_longest_counts() -> None:
    assert tokens({"input": ["word " * 300, "word " * 400, "a"]}, EMBEDDINGS) == 400


def test_a_request_goes_to_the_members_it_fits_into() -> None:
    def members(key: str, size: int) -> tuple[str, ...] | None:
        found = fitting(CONFIG.names[key], size, CONFIG)
        return found.members if found else None

    assert members("both", 700) == ("small", "big")
    # An eighth is for the answer.
    assert members("both", 701) == ("big",)
    assert members("both", 7001) is None
    assert members("any", 7001) == ("far",)
    assert (largest(("small", "big"), CONFIG), largest(("far",), CONFIG)) == (8000, None)
    # A fallback in the house is checked, whoever is called before it.
    assert largest(("far", "small"), CONFIG) == 800


def test_the_refusal_has_both_numbers_and_the_next_step() -> None:
    small = CONFIG.names["small"]
    assert str(too_long(CHAT, small, 1234, OWNER, CONFIG)) == (
        "this conversation has about 1,234 tokens, and small takes 700 of its 800, the rest is for "
        "the answer; shorten it or start a new one, or use one with more room: any, both, big, far"
    )
    error = too_long(EMBEDDINGS, small, 1234, GUEST, CONFIG)
    assert str(error) == "a text has about 1,234 tokens, and small takes 700; split it"
    assert (error.status, error.code, error.param) == (400, "context_length_exceeded", "input")


@pytest.mark.parametrize(
    ("path", "given", "sent"),
    [
        (CHAT, {}, {"max_tokens": 300}),
        (CHAT, {"max_tokens": 16}, {"max_tokens": 16}),
        # Ollama does not know this name.
        (CHAT, {"max_completion_tokens": 16}, {"max_tokens": 16}),
        (CHAT, {"max_tokens": 9000}, {"max_tokens": 300}),
        (RESPONSES, {"max_output_tokens": 9000}, {"max_output_tokens": 300}),
        (MESSAGES, {"max_tokens": 9000}, {"max_tokens": 300}),
        (EMBEDDINGS, {}, {}),
    ],
)
def test_an_answer_ends_where_the_context_does(
    path: str, given: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert with_limit(path, given, left("small", 500, CONFIG)) == sent
    assert with_limit(path, given, left("far", 500, CONFIG)) == given
