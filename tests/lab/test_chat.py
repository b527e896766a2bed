"""The family's chat: who is offered which models, and which of them each kind of message calls.

What a deploy proves everywhere is in hearth/smoke/test_chat.py, what survives restarts in
test_chat_data.py. The models' weights are made up, so no test checks the text of an answer.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator

import pytest

from hearth.clients.chat import Connection, Person, live_connection, send_message, wait_for_answer
from hearth.clients.recordings import utterances, wav
from tests.lab import chat
from tests.lab.house import House

pytestmark = pytest.mark.lab

KOKORO = "http://10.140.30.18:8880/status"
# Part of every chat and every document, so that a log which repeats it is found.
WORD = "zanzibar-blue-4711"
SENTENCE = f"The garden gate opens with the key called {WORD}."
QUESTION = f"How does the garden gate open, {WORD}?"
PAPER, LONG = f"{WORD}.pdf", f"{WORD}-long.pdf"
TOKENS, WITHIN_S = 16, 60
JOURNALS = ("open-webui", "litellm", "ollama", "kokoro", "whisper")


@pytest.fixture
def line(child: Person) -> Iterator[Connection]:
    """The child's WebSocket."""
    with live_connection(child) as opened:
        yield opened


def test_an_ordinary_account_is_offered_all_that_the_first_one_is(
    admin: Person, child: Person
) -> None:
    offered = chat.models(child)
    assert offered.keys() == chat.models(admin).keys()
    for name in ("fast", "local", "vision"):
        assert chat.description(offered[name]), name
    assert child.role == "user"
    form = {"name": "x", "email": "x@house.lan", "password": "x", "role": "admin"}
    assert child.send("POST", chat.ADD, json=form).status_code in (401, 403)


def test_it_is_answered_by_the_model_it_chose_and_its_chat_is_its_own(
    house: House, admin: Person, child: Person, line: Connection
) -> None:
    with chat.calls(house) as calls:
        turn = send_message(child, line, QUESTION, "fast", max_tokens=TOKENS)
        answer = wait_for_answer(line, turn, WITHIN_S)
        again = wait_for_answer(
            line, send_message(child, line, "And then?", "fast", after=turn), WITHIN_S
        )
    assert not answer.error + again.error
    assert answer.text.strip()
    assert [(call.alias, call.status, call.end) for call in calls] == [("fast", 200, "done")] * 2
    # The page shows the name of the model above the answer.
    shown = [event.data["description"] for event in answer.events if event.kind == "status"]
    assert shown == [f"Answered by {calls[0].member}"]
    written = chat.messages(child, turn.chat)
    assert written[turn.question]["content"] == QUESTION
    assert written[turn.answer]["content"].strip() == answer.text.strip()
    assert written[again.turn.question]["parentId"] == turn.answer
    # Other accounts do not find it, even with its ID.
    other = chat.add(admin, "Guest")
    assert other.send("GET", f"/api/v1/chats/{turn.chat}").status_code in (401, 404)
    chat.remove(admin, other)


@pytest.mark.parametrize(("alias", "member"), [("fast", "qwen3.5:4b"), ("coder", "qwen3-vl")])
def test_a_picture_goes_to_a_model_that_sees(
    house: House, child: Person, line: Connection, alias: str, member: str
) -> None:
    shown = [chat.picture(chat.png())]
    with chat.calls(house) as calls:
        answer = wait_for_answer(
            line,
            send_message(child, line, QUESTION, alias, files=shown, max_tokens=TOKENS),
            WITHIN_S,
        )
    assert not answer.error
    assert [(call.member, call.status) for call in calls] == [(member, 200)]


def test_a_sentence_of_a_document_is_found_and_cited(
    house: House, child: Person, line: Connection
) -> None:
    with chat.calls(house) as calls:
        paper = chat.upload(child, PAPER, chat.pdf(SENTENCE), "application/pdf")
    assert [(call.alias, call.path) for call in calls] == [("embed", "/v1/embeddings")]
    with chat.calls(house) as calls:
        answer = wait_for_answer(
            line,
            send_message(child, line, QUESTION, "fast", files=[paper], max_tokens=TOKENS),
            WITHIN_S,
        )
    assert not answer.error
    assert {call.alias for call in calls} == {"embed", "fast"}, calls
    assert {call.status for call in calls} == {200}
    assert chat.cited(answer) == {PAPER: [SENTENCE]}
    # It is there as well when the page is reloaded.
    stored = chat.messages(child, answer.turn.chat)[answer.turn.answer]["sources"]
    assert SENTENCE in json.dumps(stored)


def test_a_long_document_is_answered_from_its_last_page(
    house: House, child: Person, line: Connection
) -> None:
    # Twice the context of `fast`, so it cannot go to the model whole.
    ferry = "the ferry crosses the lake every day in fog and in wind"
    words = "\n".join([ferry] * 20)
    pages = [f"Page {number}.\n{words}" for number in range(1, 60)]
    # Behind so many copies of one passage, Chroma's index loses the last one four times of five.
    pages += [ferry] * 200
    with chat.calls(house) as calls:
        paper = chat.upload(child, LONG, chat.pdf(*pages, SENTENCE), "application/pdf")
        # The weights are made up, so only the sentence itself is certain to be near it.
        answer = wait_for_answer(
            line,
            send_message(child, line, SENTENCE, "fast", files=[paper], max_tokens=TOKENS),
            WITHIN_S,
        )
    assert not answer.error
    assert {(call.alias, call.status) for call in calls} == {("embed", 200), ("fast", 200)}
    assert SENTENCE in "\n".join(chat.cited(answer)[LONG])


def test_a_collection_of_documents_is_searched(house: House, admin: Person) -> None:
    papers = [
        chat.upload(admin, f"{number}.pdf", chat.pdf(text), "application/pdf")
        for number, text in enumerate((SENTENCE, "The cellar has no door."))
    ]
    collection = chat.collect(admin, "Keys", papers)
    with live_connection(admin) as line, chat.calls(house) as calls:
        turn = send_message(admin, line, QUESTION, "fast", files=[collection], max_tokens=TOKENS)
        answer = wait_for_answer(line, turn, WITHIN_S)
    assert not answer.error
    assert "embed" in {call.alias for call in calls}
    assert SENTENCE in chat.cited(answer)["Keys"]


def test_speech_is_transcribed_and_synthesised(house: House, child: Person) -> None:
    spoken = ("speech.wav", wav(utterances(3)[0].pcm), "audio/wav")
    with chat.calls(house) as calls:
        transcript = child.request("POST", "/api/v1/audio/transcriptions", files={"file": spoken})
    assert transcript["text"].strip()
    assert [(call.alias, call.status) for call in calls] == [("transcribe", 200)]
    before = spoken_texts(house)
    # Text that was read aloud before is not requested again.
    text = f"The gate is open, {WORD}, {secrets.token_hex(3)}."
    wish = {"model": "", "input": text, "voice": ""}
    sound = child.send("POST", "/api/v1/audio/speech", json=wish)
    assert sound.status_code == 200, sound.text[:200]
    assert sound.headers["content-type"].startswith("audio/")
    assert len(sound.content) > 1000
    assert spoken_texts(house) == before + 1
    # Sentence by sentence, so that the first is played while the second is still being generated.
    assert child.request("GET", "/api/config")["audio"]["tts"]["split_on"] == "punctuation"


def spoken_texts(house: House) -> int:
    """Return how many texts the speech server was sent."""
    status = json.loads(house.shell(f"curl --silent --max-time 5 {KOKORO}"))
    return sum(status["requests"].values())


def test_no_message_is_in_a_log(house: House, admin: Person, child: Person) -> None:
    read = "journalctl --boot --no-pager --output cat --quiet"
    journals = {name: house.shell(f"incus exec {name} -- {read} </dev/null") for name in JOURNALS}
    journals["the machine"] = house.shell(read)
    assert all(journals.values()), [name for name, text in journals.items() if not text]
    address = str(child.request("GET", "/api/v1/auths/")["email"])
    private = {WORD: "words", address: "who is there"}
    private |= dict.fromkeys((child.token, admin.token), "a sign-in")
    for where, text in journals.items():
        for secret, what in private.items():
            assert secret not in text, f"{what} in the journal of {where}"
