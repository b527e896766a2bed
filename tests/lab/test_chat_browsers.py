"""The chat in real browsers, on a guest of the house: text, speech, images and documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.chat_visit import DOCUMENT, SENTENCE, answers, come, furnish, quiet
from tests.lab.heard import LOUD
from tests.lab.house import House
from tests.lab.visitor import Visit

pytestmark = pytest.mark.lab

# The end of a made-up model's thought.
LAST_STEP = "step 40,"
# Scenes that only one of the browsers plays.
in_chromium = pytest.mark.parametrize("visit", ["chromium"], indirect=True)


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def visit(
    request: pytest.FixtureRequest,
    house: House,
    guest: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Visit:
    """One browser's whole visit; a browser that is missing or does not start fails all of it."""
    browser = str(request.param)
    furnish(guest, tmp_path_factory.mktemp("inputs"))
    return come(house, guest, browser, "chatting")


def test_without_a_login_the_form_offers_no_sign_up(visit: Visit) -> None:
    found = visit["stranger"]
    buttons = [text for text in found.pop("buttons") if text]
    assert found == {"secure": True, "password": True, "writes": False}
    assert buttons == ["Sign in"]


def test_the_list_of_models_is_readable(visit: Visit) -> None:
    found = visit["login"]
    known = {one["id"]: one for one in found["known"]}
    assert {"fast", "vision", "embed", "transcribe"} <= set(known)
    shown = {one["label"]: one["text"] for one in found["offered"]}
    for one in known.values():
        label = f"Select {one['name']} model"
        assert (label in shown) != one["hidden"]
        if label in shown:
            assert one["description"] in shown[label]
    # An embedding model cannot chat.
    assert known["embed"]["hidden"]
    assert known["transcribe"]["hidden"]
    quiet(found)


def test_an_answer_streams_and_names_its_model(visit: Visit, house: House) -> None:
    found = visit["streaming"]
    answer = answers(found)
    lengths = [length for _, length in found["states"] if length]
    assert len(lengths) > 2, "it came in one lump"
    assert lengths[-1] >= len(answer)
    last = found["messages"][-1]
    assert last["model"] == found["name"]
    assert last["from"] in {one["id"] for one in visit["login"]["known"]}, "no model is named"
    first = next(at for at, length in found["states"] if length)
    house.figures[f"first words in {visit.browser}, ms"] = first - found["sent"]
    quiet(found)


def test_the_speaker_button_plays_the_answer(visit: Visit, house: House) -> None:
    found = visit["speaker"]
    assert found["heard"]["peak"] > LOUD
    # The sentences after it may still be on their way.
    first, *_ = found["answers"]
    assert first["status"] == 200
    assert found["heard"]["first"] > first["first_byte"] > found["pressed"]
    house.figures[f"first sound in {visit.browser}, ms"] = (
        found["heard"]["first"] - found["pressed"]
    )
    quiet(found)


@in_chromium
def test_a_reloaded_page_has_the_chat(visit: Visit) -> None:
    found = visit["again"]
    assert found["listed"] == 1
    assert len(found["before"]) == 2
    assert found["after"] == found["before"]


@in_chromium
def test_speech_arrives_as_text(visit: Visit) -> None:
    found = visit["dictation"]
    assert found["text"]
    quiet(found)


@in_chromium
def test_a_picture_is_shown_and_asked_about(visit: Visit) -> None:
    found = visit["picture"]
    assert found["drawn"] == 1
    answers(found)
    # The first of the alias's members sees.
    assert found["messages"][-1]["from"] == "qwen3.5:4b"
    quiet(found)


@in_chromium
def test_a_thought_is_folded_and_not_read_aloud(visit: Visit) -> None:
    found = visit["thought"]
    answer = answers(found)
    assert found["fold"].startswith("Thought")
    assert LAST_STEP not in answer
    assert LAST_STEP in found["opened"]
    # What was sent to the speech server is the answer alone.
    assert found["spoken"]
    assert "step" not in found["spoken"]
    assert "Thought" not in found["spoken"]
    quiet(found)


@in_chromium
def test_a_document_is_cited_with_its_sentence(visit: Visit) -> None:
    found = visit["document"]
    assert Path(DOCUMENT).name in found["name"]
    assert SENTENCE in found["cited"]
    answers(found)
    quiet(found)


@in_chromium
def test_another_account_sees_the_same_models(visit: Visit) -> None:
    found = visit["second account"]
    assert found["offered"] == visit["login"]["offered"]
    answers(found)
    quiet(found)


@in_chromium
def test_its_screenshots_exist(visit: Visit) -> None:
    for scene in ("dark pictures", "light pictures"):
        found = visit[scene]
        assert found["wide"] <= 0
        for name in found["names"]:
            assert (visit.folder / name).stat().st_size > 10_000
