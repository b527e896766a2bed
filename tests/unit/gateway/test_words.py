"""What people read when something failed, and which model they are told answered."""

from __future__ import annotations

import json

import pytest

from hearth_gateway import status, wire, words

BEHIND = "\n\nLiteLLM: model group 'm' failed with the error above. No fallback was attempted."


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (
            f"litellm.InternalServerError: InternalServerError: OpenAIException - "
            f"no memory{BEHIND}",
            "no memory",
        ),
        ("litellm.BadRequestError: OpenAIException - too long", "too long"),
        (
            f"litellm.InternalServerError: InternalServerError: OpenAIException - "
            f"Connection error.{BEHIND}",
            "m cannot be reached; try again in a moment",
        ),
        ("it says: litellm.BadRequestError: OpenAIException - no", None),
        ("plain words - as they are", None),
        (BEHIND, "the model's server gave no reason"),
    ],
)
def test_only_the_members_words_are_left(said: str, read: str | None) -> None:
    body = wire.error(500, said, "500")
    problem = words.plainly("m", body)["error"]
    assert problem == body["error"] | {"message": said if read is None else read}


def test_how_a_connection_broke_helps_nobody_and_a_refusal_does() -> None:
    cut = {"message": "litellm.APIConnectionError: TransferEncodingError 400", "code": "500"}
    code, body = words.broken("m", cut)
    text = "m broke off in the middle of its answer; ask again"
    assert (code, body["error"]["message"], body["error"]["code"]) == (502, text, "broken_off")
    code, body = words.broken("m", {"message": "the answer is too long", "code": 413})
    assert (code, body["error"]["message"]) == (413, "the answer is too long")


def line(name: str, member: str, *failed: str, leaves: bool = False) -> str:
    event = status.line(name, member, failed, leaves)
    return str(json.loads(event[5:])["event"]["data"]["description"]) if event else ""


def test_the_line_names_who_answers_and_who_did_not() -> None:
    assert line("fast", "a") == "Answered by a"
    assert line("fast", "b", "a") == "Answered by b; a gave no answer"
    assert line("fast", "c", "a", "b") == "Answered by c; a and b gave no answer"
    assert line("far", "cloud", leaves=True) == "Answered by cloud, outside this house"
    assert line("a", "a") == ""
