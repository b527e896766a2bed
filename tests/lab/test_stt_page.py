"""The STT page in real browsers, on a guest of the house: spoken sentences become text."""

from __future__ import annotations

import wave
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hearth.clients.recordings import BYTES, RATE, utterances
from tests import lab_machine as lab
from tests.lab import visitor
from tests.lab.heard import quiet
from tests.lab.house import House
from tests.lab.visitor import Visit

pytestmark = pytest.mark.lab

PAGE = "https://whisper.lan/"
SOUND, LONG = "/srv/speech.wav", "/srv/long.wav"
SPOKEN = (utterances(3)[0], utterances(10)[0])
# Repeated so often that it is more than one of Whisper's windows of 30 s.
LONG_TIMES = 3
# Longer than any pause within a sentence, shorter than the one between two.
PAUSE_S, APART_MS = 1.5, 1000
# The outer machine renders, listens and infers on the same two cores.
NEAR_MS = 200
REACHED = {
    *("talk", "stop", "transcript", "language", "silence", "prompt"),
    *("upload", "format", "export", "copy", "clear"),
}


# What does not depend on the browser; tests/browser/scenes.mjs plays it in one of them.
in_chromium = pytest.mark.parametrize("visit", ["chromium"], indirect=True)


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def visit(
    request: pytest.FixtureRequest,
    house: House,
    guest: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Visit:
    """One browser's whole visit, with speech for its microphone."""
    browser = str(request.param)
    password = house.hearth("secret", "show", "house_password", "--plain").stdout.strip()
    for path, times in ((SOUND, 1), (LONG, LONG_TIMES)):
        sound = tmp_path_factory.mktemp("sound") / Path(path).name
        write_speech(sound, times)
        lab.copy_in(guest, sound, path)
    return visitor.visit(
        *(guest, browser, "listening", PAGE, password),
        sound=SOUND,
        long=LONG,
        utterances=len(SPOKEN),
    )


def write_speech(path: Path, times: int) -> None:
    """Write the speech: a silence before each sentence, and a longer one at the end."""
    parts = [silence(PAUSE_S) + one.pcm for one in SPOKEN] * times
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(BYTES)
        file.setframerate(RATE)
        file.writeframes(b"".join(parts) + silence(2 * PAUSE_S))


def silence(seconds: float) -> bytes:
    """Return this many seconds of silence."""
    return bytes(BYTES * int(RATE * seconds))


def of_kind(found: Any, kind: str) -> list[Any]:
    """Return the events of a kind that the page received, in their order."""
    return [event for event in found["events"] if event["type"] == kind]


def test_without_a_login_only_the_form_is_shown(visit: Visit) -> None:
    assert visit["stranger"] == {"secure": True, "password": True, "speaks": False}


def test_the_login_leads_to_the_page_which_knows_its_model(visit: Visit) -> None:
    found = visit["login"]
    assert found["address"] == PAGE
    assert found["model"]
    assert found["languages"]
    quiet(found)


def test_speech_is_transcribed_once_and_in_order(visit: Visit) -> None:
    # Also where there was no guess.
    for found in visit["talk"]:
        written_once_and_in_order(found)


def written_once_and_in_order(found: Any) -> None:
    """Check one whole dictation."""
    finals = of_kind(found, "final")
    assert len(finals) == len(SPOKEN)
    assert [one["text"].strip() for one in finals] == [line["text"] for line in found["lines"]]
    numbers = [one["utterance"] for one in finals]
    assert numbers == sorted(set(numbers))
    # Each line's times lie within the audio that was sent, one after the other.
    sent_s = found["sent"] / BYTES / found["start"]["sample_rate"]
    times = [moment for one in finals for moment in (one["start_s"], one["end_s"])]
    assert [*times, sent_s] == sorted([0.0, *times, sent_s])[1:]
    states = [state for _, state in found["states"] if state]
    assert states == ["idle", "asking", "listening", "done"]
    assert of_kind(found, "done")
    assert not of_kind(found, "error")
    quiet(found)


def test_the_shown_time_is_the_real_wait(visit: Visit, house: House) -> None:
    waits = [wait for found in visit["talk"] for wait in waits_of(found)]
    house.figures[f"last word to its line in {visit.browser}, ms"] = min(waits)


def waits_of(found: Any) -> list[float]:
    """Return the wait for each line after its sentence, in ms; the page shows the same."""
    # When each sentence ended, by the microphone's own samples.
    loud = found["loud"]
    ends = [one for one, following in pairwise(loud) if following - one > APART_MS] + loud[-1:]
    assert len(ends) == len(SPOKEN)
    rows = [at for at, count in found["rows"] if count]
    waits = [row - end for row, end in zip(rows, ends, strict=True)]
    shown = [float(line["felt"].removesuffix(" s")) * 1000 for line in found["lines"]]
    assert shown == pytest.approx(waits, abs=NEAR_MS)
    assert found["display"]["latency"] == found["lines"][-1]["felt"]
    return waits


@in_chromium
def test_the_start_of_a_guess_stays(visit: Visit) -> None:
    found = visit["talk"][-1]
    partials = of_kind(found, "partial")
    assert partials, "each time the processors had nothing left for guesses"
    for one, following in pairwise(partials):
        if one["utterance"] == following["utterance"]:
            assert following["text"].startswith(one["stable"])
    shown = " ".join(text for _, text in found["guesses"])
    assert any(one["text"].strip() and one["text"].strip() in shown for one in partials)
    # After the last line there are no guesses.
    assert found["guesses"][-1][1] == ""


def test_a_line_can_be_requested_during_speech(visit: Visit) -> None:
    found = visit["line now"]
    (first, *_) = of_kind(found, "speech_ended")
    assert found["requested"] < first["at"]
    assert first["at"] < found["loud"][-1], "silence ended the line"
    assert found["lines"]
    quiet(found)


def test_a_file_is_transcribed_and_saved_as_subtitles(visit: Visit) -> None:
    found = visit["upload"]
    assert [state for _, state in found["states"] if state] == ["idle", "uploading", "done"]
    assert found["lines"]
    # Each window's lines appear while the next one is being transcribed.
    assert len([count for _, count in found["rows"] if count]) > 1, "all lines came at once"
    assert found["name"] == "long.srt"
    cues = found["content"].strip().split("\n\n")
    assert [cue.splitlines()[2] for cue in cues] == [line["text"] for line in found["lines"]]
    assert all(" --> 00:00:" in cue for cue in cues)
    quiet(found)


def test_a_picture_is_refused_in_one_line_and_the_page_goes_on(visit: Visit) -> None:
    found = visit["picture"]
    assert found["refused"]["display"]["state"] == "failed"
    assert "no audio" in found["refused"]["display"]["status"]
    assert found["display"]["state"] == "done"
    assert found["lines"]


def test_without_a_microphone_it_shows_instructions(visit: Visit) -> None:
    found = visit["without a microphone"]
    assert found["display"]["state"] == "failed"
    assert "microphone" in found["display"]["status"]
    quiet(found)


def test_the_keyboard_is_enough(visit: Visit) -> None:
    found = visit["keyboard"]
    reached = {one["id"]: one["seen"] for one in found["reached"]}
    # A model of one language offers no choice.
    assert set(reached) >= REACHED - {"language"}
    assert [name for name, seen in reached.items() if not seen] == []
    assert found["began"]["display"]["state"] == "listening"
    assert found["display"]["state"] == "done"


@in_chromium
@pytest.mark.parametrize("scene", ["accessibility", "accessibility in the dark"])
def test_it_is_accessible(visit: Visit, scene: str) -> None:
    visit.is_accessible(scene)


def test_a_narrow_phone_shows_all_of_it(visit: Visit) -> None:
    visit.fits_a_phone()


@in_chromium
def test_it_is_light_by_day_and_dark_by_night(visit: Visit) -> None:
    visit.is_light_and_dark()


def test_an_expired_login_shows_a_notice(visit: Visit) -> None:
    found = visit["login ended"]
    assert "log in" in found["status"].lower()
    assert any(link.startswith(PAGE) for link in found["links"])
