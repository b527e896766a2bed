"""The TTS page in real browsers, on a guest of the house: sound, text, keys and the login."""

from __future__ import annotations

import json
import threading

import av
import pytest

from tests import lab_machine as lab
from tests.lab import visitor
from tests.lab.heard import LOUD, due, plays, quiet, share, streams
from tests.lab.house import NAME, House, ask
from tests.lab.visitor import ROOT_THERE, Visit

pytestmark = pytest.mark.lab

PAGE = "https://kokoro-web.lan/"
KOKORO = "10.140.30.18:8880"
# The outer machine renders, plays and infers on the same two cores.
LATE_MS = 200
# The number of the server's requests, whenever it changes, until a file appears.
WATCH = """
import http.client, json, os, sys, time
host, stop = sys.argv[1:]
if os.path.exists(stop):
    os.unlink(stop)
line, seen = http.client.HTTPConnection(host, timeout=10), []
while not os.path.exists(stop):
    line.request("GET", "/status")
    status = json.loads(line.getresponse().read())
    active = status["active"] + status["waiting"]
    if not seen or seen[-1][1] != active:
        seen.append((time.time(), active))
    time.sleep(0.02)
os.unlink(stop)
print(json.dumps(seen))
"""
STOP_WATCHING = "/run/stop-watching"
# What does not depend on the browser; tests/browser/scenes.mjs plays it in one of them.
in_chromium = pytest.mark.parametrize("visit", ["chromium"], indirect=True)


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def visit(request: pytest.FixtureRequest, house: House, guest: str) -> Visit:
    """One browser's whole visit; a browser that is missing or does not start fails all of it."""
    browser = str(request.param)
    password = house.hearth("secret", "show", "house_password", "--plain").stdout.strip()
    found: list[tuple[float, int]] = []
    watcher = threading.Thread(target=watch, args=(found,))
    watcher.start()
    try:
        visit = visitor.visit(guest, browser, "speaking", PAGE, password)
    finally:
        house.shell(f"touch {STOP_WATCHING}")
        watcher.join(60)
    visit.active = found
    return visit


def watch(found: list[tuple[float, int]]) -> None:
    """Record how many requests the speech server handles, from inside the house."""
    argv = ["python3", "-c", WATCH, KOKORO, STOP_WATCHING]
    done = lab.run(NAME, argv, timeout=visitor.VISIT_S + 30, check=True)
    found.extend((at, active) for at, active in json.loads(done.stdout))


def test_without_a_login_only_the_form_is_shown(visit: Visit) -> None:
    found = visit["stranger"]
    assert found == {"secure": True, "password": True, "speaks": False}


def test_the_login_leads_to_what_the_link_named_with_all_its_voices(visit: Visit) -> None:
    found = visit["login"]
    assert found["address"].startswith(PAGE)
    assert found["text"] == found["linked"]
    assert len(found["voices"]) == 54
    assert len(found["groups"]) >= 8
    # This server speaks every language of its voices.
    assert [one["value"] for one in found["voices"] if one["disabled"]] == []
    quiet(found)


def test_it_is_heard_from_the_first_bytes_on_without_a_gap(visit: Visit, house: House) -> None:
    tries = visit["streaming"]
    late_ms = [streams(found, 0.6) for found in tries]
    for found in tries:
        quiet(found)
        first = found["heard"]["first"] - found["pressed"]
        # The page's own measure is that of the first sample, as `audio_recorder.mjs` has it.
        shown_s = float(found["display"]["ttfa"].removesuffix(" s"))
        assert shown_s * 1000 == pytest.approx(first, abs=150)
    assert tries[-1]["display"]["stalls"] == "0", f"each time the server was late, by {late_ms} ms"
    house.figures[f"first sound after the press in {visit.browser}, ms"] = first
    house.figures[f"its share of the answer's time in {visit.browser}, %"] = 100 * share(found)


def test_it_highlights_the_words_as_they_are_played(visit: Visit) -> None:
    found = visit["streaming"][-1]
    shown = [(at, text) for at, text in found["speaking"] if text]
    spoken = [piece for piece in due(found) if piece.text]
    # A first, a middle and a last one; a faster machine speaks in longer pieces.
    assert len(spoken) >= 3, spoken
    assert [text for _, text in shown] == [piece.text for piece in spoken]
    for (at, text), piece in zip(shown, spoken, strict=True):
        assert text in found["text"]
        assert at == pytest.approx(piece.at, abs=LATE_MS), (text, shown, spoken)
    states = [state for _, state in found["states"]]
    assert states[-2:] == ["speaking", "done"], states


def test_stop_is_silence_at_once_and_frees_the_server(visit: Visit, house: House) -> None:
    found = visit["stop"]
    assert found["began"]["display"]["state"] == "speaking"
    assert found["display"]["state"] == "stopped"
    rest_ms = found["heard"]["last"] - found["pressed"]
    house.figures[f"sound after stop in {visit.browser}, ms"] = rest_ms
    assert rest_ms < 300
    pressed_at = (found["epoch"] + found["pressed"]) / 1000
    before = [active for at, active in visit.active if at < pressed_at]
    after = [at - pressed_at for at, active in visit.active if at > pressed_at and active == 0]
    assert before[-1] > 0, "the server had made it all before it was stopped"
    assert after[0] < 1.0, f"the server went on for {after[0]:.1f} s"
    house.figures[f"work after stop in {visit.browser}, ms"] = after[0] * 1000
    quiet(found)


def test_it_needs_no_media_source(visit: Visit) -> None:
    found = visit["without MediaSource"]
    assert found["gone"]
    assert found["display"]["state"] == "speaking"
    assert [path for _, path in found["paths"] if path] == ["worklet"]
    assert found["heard"]["peak"] > LOUD
    assert share(found) <= 0.6
    quiet(found)


def test_without_a_worklet_it_plays_the_whole_and_shows_that_it_waits(visit: Visit) -> None:
    found = visit["without AudioWorklet"]
    assert found["gone"]
    plays(found, "blob")
    (answer,) = found["answers"]
    assert found["heard"]["first"] > answer["last_byte"] - 50
    assert "waiting" in [state for _, state in found["states"]]
    quiet(found)


@in_chromium
def test_a_voice_has_a_sample_and_two_can_be_mixed(visit: Visit) -> None:
    sample = visit["sample"]
    assert sample["display"]["state"] == "speaking"
    assert sample["answers"][0]["request"]["voice"] == "ef_dora"
    blend = visit["blend"]
    plays(blend)
    request = blend["answers"][0]["request"]
    first, second = request["voice"].split("+")
    assert (first.partition("(")[0], second.partition("(")[0]) == ("af_heart", "bm_fable")
    assert request["speed"] == 1.5


def test_the_keyboard_is_enough(visit: Visit) -> None:
    found = visit["keyboard"]
    reached = {one["id"] for one in found["reached"]}
    fields = {"text", "voice", "blend", "speed", "format", "sample", "speak", "download"}
    assert fields <= reached, reached
    assert [one["id"] for one in found["reached"] if not one["seen"]] == []
    assert found["began"]["display"]["state"] == "speaking"
    assert found["display"]["state"] == "stopped"
    assert found["heard"]["last"] - found["pressed"] < 300


def test_a_download_is_a_file_that_plays(visit: Visit) -> None:
    found = visit["download"]
    (answer,) = found["answers"]
    # So the server splits it as it was played, and it sounds the same.
    assert answer["request"]["stream"] is False
    file = visit.folder / "downloads" / found["name"]
    assert file.suffix == ".mp3"
    with av.open(file) as sound:
        frames = list(sound.decode(audio=0))
        assert sound.streams.audio[0].codec_context.name.startswith("mp3")
    assert sum(frame.samples for frame in frames) / frames[0].sample_rate > 1
    assert max(float(abs(frame.to_ndarray()).max()) for frame in frames) > LOUD


@in_chromium
def test_a_link_opens_with_the_settings_of_its_page(visit: Visit) -> None:
    found = visit["permalink"]
    assert found["link"].startswith(f"{PAGE}#")
    assert found["after"] == found["before"]
    plays(found)
    request = found["answers"][0]["request"]
    assert (request["input"], request["voice"]) == (found["before"]["text"], "bf_emma")
    quiet(found)


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


def test_the_api_beside_it_still_requires_a_key(house: House, guest: str) -> None:
    for address in ("https://kokoro-stream.lan/v1/audio/speech", f"{PAGE}v1/audio/speech"):
        assert ask(guest, ROOT_THERE, "kokoro", None, address=address).status == 401
        assert ask(guest, ROOT_THERE, "kokoro", "sk-wrong", address=address).status == 401
    voices = ["--request", "GET"]
    key = house.key()
    address = "https://kokoro-stream.lan/v1/audio/voices"
    assert ask(guest, ROOT_THERE, "kokoro", key, *voices, address=address).status == 200
