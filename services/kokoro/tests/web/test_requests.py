"""Accepted and rejected requests, and the text of the errors."""

import json
from typing import Any

import pytest

from hearth_kokoro.web.limits import Limits
from hearth_kokoro.web.requests import parse_speech_request, parse_stream_query, voice_name
from hearth_serving.errors import ServiceError, error_body

LIMITS = Limits(text_characters=50)


def ask(**fields: Any) -> Any:
    return parse_speech_request(json.dumps({"input": "Hello.", **fields}).encode(), LIMITS)


def refused(body: bytes) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        parse_speech_request(body, LIMITS)
    assert "\n" not in str(caught.value)
    return caught.value


def test_omitted_fields_have_the_expected_defaults() -> None:
    requested = ask()
    assert (requested.response_format, requested.speed, requested.stream) == ("mp3", 1.0, True)
    assert requested.voice_name == "af_heart"


@pytest.mark.parametrize("voice", ["nova", "Nova", {"id": "nova"}])
def test_openai_voices_are_mapped(voice: Any) -> None:
    assert ask(voice=voice).voice_name == "af_nova"


def test_other_voices_pass_unchanged() -> None:
    assert voice_name("af_heart(2)+bm_fable(1)") == "af_heart(2)+bm_fable(1)"


def test_instructions_and_unknown_fields_are_ignored() -> None:
    assert ask(instructions="whisper", lang_code="a", seed=3).input == "Hello."


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        (b"", None, "invalid_json"),
        (b"{", None, "invalid_json"),
        (b"[" * 100_000, None, "invalid_json"),
        (b"[]", None, "invalid_json"),
        (b"null", None, "invalid_json"),
        (b'"text"', None, "invalid_json"),
        (b"\xff\xfe{}", None, "invalid_json"),
        (b'{"input": "\\ud800"}', None, "invalid_json"),
        (b"{}", "input", "missing_required_parameter"),
        (b'{"input": 5}', "input", "invalid_value"),
        (b'{"input": null}', "input", "invalid_value"),
        (b'{"input": ""}', "input", "empty_input"),
        (b'{"input": " \\n\\t "}', "input", "empty_input"),
        (b'{"input": "' + b"a" * 51 + b'"}', "input", "string_above_max_length"),
        (b'{"input": "a", "speed": 0.2}', "speed", "invalid_value"),
        (b'{"input": "a", "speed": 4.01}', "speed", "invalid_value"),
        (b'{"input": "a", "speed": 1e999}', "speed", "invalid_value"),
        (b'{"input": "a", "speed": NaN}', "speed", "invalid_value"),
        (b'{"input": "a", "speed": "fast"}', "speed", "invalid_value"),
        (b'{"input": "a", "voice": 3}', "voice", "invalid_value"),
        (b'{"input": "a", "voice": "' + b"a" * 501 + b'"}', "voice", "invalid_value"),
        (b'{"input": "a", "response_format": "midi"}', "response_format", "invalid_value"),
        (b'{"input": "a", "stream": "maybe"}', "stream", "invalid_value"),
        (b'{"input": "a", "stream_format": "udp"}', "stream_format", "invalid_value"),
        (b'{"input": "a", "stream_format": "sse", "stream": false}', "stream", None),
        (b'{"input": "a", "model": "whisper-1"}', "model", "model_not_found"),
    ],
)
def test_errors_name_the_field(body: bytes, param: str | None, code: str | None) -> None:
    error = refused(body)
    assert (error.param, error.code) == (param, code)
    assert error.status == (404 if code == "model_not_found" else 400)


def test_errors_quote_neither_the_text_nor_control_characters() -> None:
    error = refused(b'{"input": "a", "model": "\\u001b[31mred\\n' + b"x" * 300 + b'"}')
    assert "\x1b" not in str(error)
    assert len(str(error)) < 200
    assert "secret" not in str(refused(b'{"input": ["secret"]}'))


def test_errors_have_openais_shape() -> None:
    body = error_body(ServiceError("too many", status=429, param="x", code="busy"))
    assert body == {
        "error": {"message": "too many", "type": "rate_limit_error", "param": "x", "code": "busy"}
    }
    assert error_body(ServiceError("x"))["error"]["type"] == "invalid_request_error"
    assert error_body(ServiceError("x", status=500))["error"]["type"] == "server_error"


def test_the_query_of_a_websocket() -> None:
    assert parse_stream_query({}).response_format == "pcm"
    assert parse_stream_query({"speed": "1.5", "voice": "alloy"}).voice_name == "af_alloy"
    with pytest.raises(ServiceError) as caught:
        parse_stream_query({"speed": "fast"})
    assert caught.value.param == "speed"
