"""The official `openai` client with the real model, streamed and whole."""

import base64
import json
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError, OpenAI

from ..web.decoding import hear

TEXT = "Good morning, the kettle is on. Come in."
FORMATS = {
    "mp3": 24_000,
    "opus": 48_000,
    "aac": 24_000,
    "flac": 24_000,
    "wav": 24_000,
    "pcm": 24_000,
}

# The frames that a codec begins and ends with: silence that no other format has.
PADDING_S = {"mp3": 0.1, "aac": 0.1}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_streamed_and_joined(client: OpenAI, name: str) -> None:
    ask: dict[str, Any] = {
        "model": "tts-1",
        "voice": "alloy",
        "input": TEXT,
        "response_format": name,
    }
    with client.audio.speech.with_streaming_response.create(**ask) as answer:
        streamed = hear(b"".join(answer.iter_bytes(4096)), name)
    whole = client.audio.speech.create(**ask, extra_body={"stream": False})
    joined = hear(whole.content, name)
    plain = client.audio.speech.create(
        **ask | {"response_format": "pcm"}, extra_body={"stream": False}
    )
    expected_s = hear(plain.content, "pcm").seconds
    within = pytest.approx(expected_s, rel=0.05, abs=PADDING_S.get(name))
    assert streamed.rate == joined.rate == FORMATS[name]
    assert streamed.seconds == within
    assert joined.seconds == within
    # Made-up weights say 11 to 16 characters a second, as the real ones do.
    assert len(TEXT) / 16 < expected_s < len(TEXT) / 8
    assert abs(joined.samples).max() > 0.01


def test_events(client: OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="kokoro", voice="af_heart", input=TEXT, response_format="pcm", stream_format="sse"
    ) as answer:
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line]
    assert events.pop() == {"type": "speech.audio.done"}
    assert "".join(event.get("text", "") for event in events) == TEXT
    sound = b"".join(base64.b64decode(event["audio"]) for event in events)
    assert hear(sound, "pcm").seconds > len(TEXT) / 16


def test_speed_changes_the_length(client: OpenAI) -> None:
    def length_s(speed: float) -> float:
        answer = client.audio.speech.create(
            model="kokoro", voice="af_heart", input=TEXT, response_format="pcm", speed=speed
        )
        return hear(answer.content, "pcm").seconds

    assert length_s(2.0) < 0.75 * length_s(1.0)


@pytest.mark.parametrize(
    ("voice", "text"),
    [
        ("bf_emma", "Well then."),
        ("ef_dora", "Buenos días."),
        ("ff_siwis", "Bonjour à tous."),
        ("hf_alpha", "नमस्ते दोस्तों।"),
        ("if_sara", "Buongiorno a tutti."),
        ("pf_dora", "Bom dia a todos."),
        ("af_heart(2)+bm_fable(1)", "Both of us."),
    ],
)
def test_every_language_and_a_blend(client: OpenAI, voice: str, text: str) -> None:
    answer = client.audio.speech.create(
        model="kokoro", voice=voice, input=text, response_format="pcm"
    )
    assert hear(answer.content, "pcm").seconds > 0.4


def test_errors_are_the_clients_own_exceptions(client: OpenAI) -> None:
    with pytest.raises(BadRequestError, match="af_heart") as unknown:
        client.audio.speech.create(model="kokoro", voice="af_haert", input="Hello.")
    assert unknown.value.param == "voice"
    with pytest.raises(BadRequestError, match="no words to speak"):
        client.audio.speech.create(model="kokoro", voice="af_heart", input="?!")
    with pytest.raises(NotFoundError):
        client.audio.speech.create(model="whisper-1", voice="af_heart", input="Hello.")
    assert [model.id for model in client.models.list()] == ["kokoro", "tts-1", "tts-1-hd"]


@pytest.mark.parametrize(
    ("voice", "text"), [("jf_alpha", "こんにちは。"), ("zf_xiaobei", "你好。")]
)
def test_the_languages_of_misaki_are_spoken(client: OpenAI, voice: str, text: str) -> None:
    sound = client.audio.speech.create(
        model="kokoro", voice=voice, input=text, response_format="pcm"
    ).read()
    assert len(sound) > 24_000  # half a second
