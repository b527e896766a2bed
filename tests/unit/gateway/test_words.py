"""What people read when something failed, and which model they are told answered."""

from __future__ import annotations

import json

import pytest

from hearth_gateway import status, wire, words

AGAIN = "try again in a moment"
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
        ("Error code: 500 - {'error': {'message': 'no memory'}}", "no memory"),
        ("Expecting value: line 1 column 1 (char 0)", "m gave no usable answer; " + AGAIN),
        ("'utf-8' codec can't decode byte 0xff", "m gave no usable answer; " + AGAIN),
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


def failure(member: str, status: int, message: str, code: str = "") -> words.Failure:
    return words.Failure(member, status, wire.error(status, message, code or str(status)))


def test_one_error_names_the_alias_and_each_member_that_was_asked() -> None:
    status, body = words.nobody(
        "fast",
        [
            failure("a", 504, "a gave no answer within 60 s", "member_timeout"),
            failure("b", 500, "b cannot be reached; try again in a moment"),
        ],
    )
    text = "fast has no answer now: a (gave no answer within 60 s), b (cannot be reached); "
    assert (status, body["error"]["message"]) == (502, text + AGAIN)
    assert body["error"]["code"] == "no_answer"
    assert body["error"]["type"] == "server_error"


@pytest.mark.parametrize(
    ("said", "told"), [([429, 429], 429), ([504], 504), ([429, 500], 502), ([401, 401], 502)]
)
def test_what_a_member_refuses_is_no_fault_of_the_caller(said: list[int], told: int) -> None:
    status, _ = words.nobody("fast", [failure(f"m{number}", number, "no") for number in said])
    assert status == told


def test_a_model_by_its_own_name_is_heard_in_its_own_words() -> None:
    assert words.nobody("a", [failure("a", 404, "no such model")])[0] == 404
    assert words.nobody("a", [failure("a", 404, "no")])[1]["error"]["message"] == "no"


def line(name: str, member: str, *failed: str, leaves: bool = False) -> str:
    event = status.line(name, member, failed, leaves)
    return str(json.loads(event[5:])["event"]["data"]["description"]) if event else ""


def test_the_line_names_who_answers_and_who_did_not() -> None:
    assert line("fast", "a") == "Answered by a"
    assert line("fast", "b", "a") == "Answered by b; a gave no answer"
    assert line("fast", "c", "a", "b") == "Answered by c; a and b gave no answer"
    assert line("far", "cloud", leaves=True) == "Answered by cloud, outside this house"
    assert line("a", "a") == ""
