"""What a caller reads when members fail: the member's own message, or one error for the alias."""

from __future__ import annotations

import pytest

from hearth_gateway.errors import MemberError, cleaned, interrupted, member_error, no_answer
from hearth_serving.errors import error_content

AGAIN = "try again in a moment"
BEHIND = "\n\nLiteLLM: model group 'm' failed with the error above. No fallback was attempted."


@pytest.mark.parametrize(
    ("message", "read"),
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
def test_only_the_members_own_message_is_left(message: str, read: str | None) -> None:
    body = error_content(500, message, "500")
    problem = cleaned("m", 500, body).body["error"]
    assert problem == body["error"] | {"message": message if read is None else read}


def test_only_a_rejection_has_the_members_details() -> None:
    cut = {"message": "litellm.APIConnectionError: TransferEncodingError 400", "code": "500"}
    error = interrupted("m", cut)
    text = "m broke off in the middle of its answer; ask again"
    assert (error.status, message_of(error), error.code) == (502, text, "broken_off")
    error = interrupted("m", {"message": "the answer is too long", "code": 413})
    assert (error.status, message_of(error)) == (413, "the answer is too long")


def failure(member: str, status: int, message: str, code: str = "") -> tuple[str, MemberError]:
    return member, member_error(status, message, code or str(status))


def message_of(error: MemberError) -> str:
    return str(error.body["error"]["message"])


def test_one_error_names_the_alias_and_each_member_that_was_called() -> None:
    error = no_answer(
        "fast",
        [
            failure("a", 504, "a gave no answer within 60 s", "member_timeout"),
            failure("b", 500, "b cannot be reached; try again in a moment"),
        ],
    )
    text = "fast has no answer now: a (gave no answer within 60 s), b (cannot be reached); "
    assert (error.status, message_of(error)) == (502, text + AGAIN)
    assert error.code == "no_answer"
    assert error.body["error"]["type"] == "server_error"


@pytest.mark.parametrize(
    ("statuses", "status"), [([429, 429], 429), ([504], 504), ([429, 500], 502), ([401, 401], 502)]
)
def test_rejections_by_members_are_not_client_errors(statuses: list[int], status: int) -> None:
    failures = [failure(f"m{number}", number, "no") for number in statuses]
    assert no_answer("fast", failures).status == status


def test_a_model_by_its_own_name_keeps_its_own_error() -> None:
    error = no_answer("a", [failure("a", 404, "no such model")])
    assert (error.status, message_of(error)) == (404, "no such model")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 502, 504])
def test_errors_have_the_shape_that_clients_read(status: int) -> None:
    error = error_content(status, "text", "code")["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"].endswith("_error")
