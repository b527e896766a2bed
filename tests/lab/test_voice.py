"""Calls in a house: from a page in two browsers and from the chat, while programs end.

The microphone plays one question again and again, so each question interrupts the answer before
it. The model is scripted (tests/mock_upstreams/scripted): it writes a story of known words.
"""

from __future__ import annotations

import json
import time
import wave
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hearth.clients import ClientError
from hearth.clients.calls import ask
from hearth.clients.recordings import BYTES, RATE, utterances
from tests import lab_machine as lab
from tests.lab import chat_visit, visitor
from tests.lab.heard import quiet
from tests.lab.house import CLONE, NAME, SMOKE, House
from tests.lab.saved import HOUSE
from tests.lab.test_chat_outages import FAST, HELD, inside
from tests.lab.test_stt_page import SOUND, silence
from tests.lab.visitor import Visit
from tests.lab.watching import edge_of
from tests.mock_upstreams.scripted import server as scripted
from tests.mock_upstreams.scripted.scripts import STORY, STORY_PACE_S

pytestmark = [pytest.mark.lab, pytest.mark.long]

PAGE = "https://voice.lan/"
VOICE = "10.140.30.62:9220"
SCRIPTED = "http://scripted-model.example.org:8480"
WITH_VOICE = Path(__file__).with_name("with_voice")
# The question, and the time after it in which the house answers.
BEFORE_S, AFTER_S = 0.8, 7.0
APART_MS = 600
STOPS_MS, KNOWN_MS = 200, 3000
WRITES_MS = 1000 * STORY_PACE_S * len(STORY) / scripted.PIECE
# Two words: within a clause, a word's time is estimated by its letters.
NEAR = 25
SOON_MS = 20_000
# As many calls as the house answers, on the machine itself, until it is stopped.
FULL = """
import asyncio, contextlib, pathlib
from hearth.clients.calls import calling, site_for_calls
from hearth.clients.endpoints import house_edge
from hearth.project import VERIFIER, current

async def hold():
    project = current()
    house = project.house()
    fqdn, key = site_for_calls(house).fqdn, project.vault.get(VERIFIER)
    endpoint = house_edge(house).endpoint(fqdn, key)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(calling(endpoint, 300, silent=True))
        pathlib.Path("/run/line-is-full").touch()
        await asyncio.sleep(250)

asyncio.run(hold())
"""
FREE = "systemctl stop full-line 2>/dev/null || true; rm -f /run/line-is-full"
# On the guest: what it sends to itself is the browser's own.
CUT = """
nft -f - <<'EOF'
table inet cut {
  chain out { type filter hook output priority 0; oifname != "lo" drop; }
  chain in { type filter hook input priority 0; iifname != "lo" drop; }
}
EOF
"""
MEND = "nft delete table inet cut 2>/dev/null || true"
NOTICED = {
    "kokoro": "voice",
    "litellm": "language model",
    "whisper": "recognition",
    "voice": "lost",
    "caddy": "lost",
}

in_chromium = pytest.mark.parametrize("visit", ["chromium"], indirect=True)


@pytest.fixture(scope="module", autouse=True)
def _voice(house: House) -> Iterator[None]:
    """Let the house answer calls, and afterwards restore it as it was."""
    try:
        house.lay_over(WITH_VOICE)
        house.site()
        house.wait_green()
        yield
    finally:
        house.shell(f"curl --silent --max-time 5 --request DELETE {SCRIPTED}/down || true")
        house.back_to(HOUSE)


@pytest.fixture(scope="module")
def speech(guest: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The microphone's sound on the guest: a question, and silence after it."""
    path = tmp_path_factory.mktemp("sound") / "question.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(BYTES)
        file.setframerate(RATE)
        file.writeframes(silence(BEFORE_S) + utterances(1)[1].pcm + silence(AFTER_S))
    lab.copy_in(guest, path, SOUND)
    return SOUND


@pytest.fixture(scope="module")
def microphone(guest: str) -> Iterator[None]:
    """A sound device of its own for Firefox's microphone, apart from the loudspeaker."""

    def pulse(*words: str) -> str:
        env = ["env", "HOME=/home/visitor", f"XDG_RUNTIME_DIR={visitor.RUNTIME}"]
        argv = ["runuser", "-u", "visitor", "--", *env, "pactl", *words]
        return lab.run(guest, argv, check=True).stdout.strip()

    module = pulse("load-module", "module-null-sink", "sink_name=microphone")
    before = pulse("get-default-source")
    pulse("set-default-source", "microphone.monitor")
    yield
    pulse("set-default-source", before)
    pulse("unload-module", module)


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def visit(
    request: pytest.FixtureRequest, house: House, guest: str, speech: str, microphone: None
) -> Visit:
    """One browser's whole visit to the page for calls."""
    password = house.hearth("secret", "show", "house_password", "--plain").stdout.strip()
    try:
        return visitor.visit(
            *(guest, str(request.param), "calling", PAGE, password),
            actions=actions(house, guest),
            sound=speech,
            repeats=True,
        )
    finally:
        lab.run(guest, ["/bin/sh", "-c", MEND])
        house.shell(f"{FREE}; {FAST}")


@pytest.fixture(scope="module")
def chat_call(house: House, guest: str, speech: str) -> Visit:
    """A call from the chat, and one whose server ends."""
    return chat_visit.come(
        house, guest, "chromium", "callingFromChat", actions(house, guest), repeats=True
    )


def actions(house: House, guest: str) -> dict[str, Callable[[], object]]:
    """Return the actions outside the browser that scenes may request."""

    def run(script: str, machine: str = NAME) -> Callable[[], float]:
        """Return what runs a script and returns the ms that this took."""

        def timed() -> float:
            began = time.monotonic()
            done = lab.run(machine, ["/bin/bash", "-euc", script], timeout=60)
            assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            return 1000 * (time.monotonic() - began)

        return timed

    killed = "kill --signal=KILL"
    services = ("kokoro", "litellm", "whisper", "ollama", "voice")
    full = f"{FREE}; systemd-run --quiet --collect --unit=full-line --working-directory={CLONE} "
    full += f"{CLONE}/.venv/bin/python -c '{FULL}'; "
    full += "timeout 30 sh -c 'until test -e /run/line-is-full; do sleep 0.1; done'"
    return {
        "fill the line": run(full),
        "free the line": run(FREE),
        **{f"end {name}": run(inside(name, killed)) for name in services},
        **{f"wait for {name}": house.wait_green for name in (*services, "caddy")},
        "end caddy": run("systemctl reload hearth-caddy"),
        "cut the network": run(CUT, guest),
        "mend the network": run(MEND, guest),
        # The scripted model is first in the alias; a model that stands still is being asked.
        "let ollama answer": run(f"curl -sf -X PUT {SCRIPTED}/down; {HELD} || true"),
        "let the script answer": run(f"curl -sf -X DELETE {SCRIPTED}/down; {FAST}"),
    }


def stretches(moments: list[float]) -> list[tuple[float, float]]:
    """Return the start and the end of each stretch of sound."""
    starts = [b for a, b in pairwise([-1e9, *moments]) if b - a > APART_MS]
    ends = [a for a, b in pairwise([*moments, 1e12]) if b - a > APART_MS]
    return list(zip(starts, ends, strict=True))


def interruptions(found: Any) -> list[tuple[float, tuple[float, float]]]:
    """Return each start of a question into an answer, with the answer's own stretch."""
    return [
        (asked, (start, end))
        for asked, _ in stretches(found["loud"])
        for start, end in found["heard"]
        if start < asked and end > asked - APART_MS / 2
    ]


def words_of(found: Any, heard_ms: float) -> str:
    """Return what of the first answer was heard by then, by its pieces and their letters."""
    text, left = "", heard_ms * 24
    (first, *_) = (one for one in found["events"] if one["type"] == "response.created")
    mine = [e for e in found["events"] if e.get("response_id") == first["response"]["id"]]
    pieces: list[list[Any]] = []
    for event in mine:
        if event["type"] == "response.output_audio_transcript.delta":
            pieces.append([event["delta"], 0])
        elif event["type"] == "response.output_audio.delta":
            pieces[-1][1] += event["samples"]
    for piece, samples in pieces:
        share = min(1.0, left / samples) if samples else 1.0
        text, left = text + piece[: round(share * len(piece))], left - samples
        if left <= 0:
            break
    return text


def check_heard(found: Any, text: str) -> None:
    """Check that a text is what was heard of the first answer, to a word or two."""
    start, end = found["heard"][0]
    expected = words_of(found, end - start)
    assert text.strip(), "nothing of the answer was kept"
    assert STORY.startswith(text.strip()), text
    assert len(text) < len(STORY) - NEAR
    assert abs(len(text.strip()) - len(expected)) <= NEAR, (text, expected)


def check_turns(found: Any, house: House, where: str, stops_ms: float = STOPS_MS) -> None:
    """Check what both pages do: the answer begins early, and is silent for the talker."""
    (_, asked_until), *_ = stretches(found["loud"])
    first_ms = found["heard"][0][0] - asked_until
    house.figures[f"end of speech to first sound, {where}, ms"] = first_ms
    assert 0 < first_ms < WRITES_MS, "it was heard only after all of it was written"
    cuts = [end - asked for asked, (_, end) in interruptions(found)]
    assert cuts, (found["heard"], stretches(found["loud"]))
    house.figures[f"first syllable to silence, {where}, ms"] = max(cuts)
    assert max(cuts) < stops_ms
    # And each of them was answered.
    assert len(found["heard"]) > len(cuts)


def shown_after(found: Any, cut: Any) -> tuple[float, str]:
    """Return how many ms after an action an error was shown, and which.

    What the action itself took, such as to reach the instance, is left out.
    """
    at = cut["at"]
    errors = [(when - at, text) for when, _, _, text in found["shown"] if when > at and text]
    assert errors, found["shown"]
    after_ms, text = errors[0]
    return max(0.0, after_ms - cut["done"]), text


def calls(house: House) -> int:
    """Return how many calls are going on."""
    status = json.loads(house.shell(f"curl --silent --fail http://{VOICE}/status"))
    return int(status["calls"])


def test_its_smoke_checks_pass(house: House) -> None:
    done = house.inside("/bin/bash", "-c", f"{SMOKE} -k test_calls.py", timeout=300)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


def test_a_key_that_does_not_open_calls_is_refused(house: House) -> None:
    done = house.hearth("secret", "show", "consumer_guest", "--plain")
    assert done.returncode == 0, done.stderr
    for key in (done.stdout.strip(), None, "sk-wrong"):
        with pytest.raises(ClientError, match=r"HTTP 40[13]"):
            ask(edge_of(house).endpoint("llm.lan", key), b"", 30)


def test_without_a_login_only_the_form_is_shown(visit: Visit) -> None:
    found = visit["stranger"]
    assert (found["secure"], found["password"]) == (True, True)


def test_it_answers_while_it_writes_and_stops_for_the_talker(visit: Visit, house: House) -> None:
    found = visit["talk"]
    check_turns(found, house, visit.browser)
    quiet(found)


def test_its_lines_have_what_was_heard(visit: Visit) -> None:
    found = visit["talk"]
    houses = [line for line in found["lines"] if "house" in line["who"]]
    assert [line for line in found["lines"] if line["who"] == "you"]
    assert "cut" in houses[0]["who"]
    check_heard(found, houses[0]["text"])


def test_the_meter_shows_where_the_time_went(visit: Visit) -> None:
    meter = visit["talk"]["meter"]
    assert meter["total"].endswith(" ms")
    assert len(meter["bars"]) >= 3
    assert all(bar.endswith(" ms") for bar in meter["bars"])
    assert meter["turns"] >= 2


def test_hanging_up_ends_the_call(visit: Visit, house: House) -> None:
    assert visit["talk"]["ended"][1] == "idle"
    assert calls(house) == 0


@in_chromium
def test_one_call_too_many_is_told_so(visit: Visit) -> None:
    found = visit["crowded"]
    after_ms, text = shown_after(found, {"at": found["pressed"], "done": 0})
    assert "4 calls are going on" in text
    assert after_ms < KNOWN_MS


@in_chromium
@pytest.mark.parametrize("program", NOTICED)
def test_the_page_says_what_ended(visit: Visit, house: House, program: str) -> None:
    found = visit[f"without {program}"]
    after_ms, text = shown_after(found["broken"], found["cut"])
    house.figures[f"call without {program}: said after, ms"] = after_ms
    assert NOTICED[program] in text
    assert after_ms < KNOWN_MS
    # A new call only where the connection itself has ended.
    assert found["again"] == (program in ("voice", "caddy"))


@in_chromium
def test_the_page_says_that_nothing_gets_through_and_the_call_goes_on(
    visit: Visit, house: House
) -> None:
    found = visit["without a network"]
    after_ms, text = shown_after(found["broken"], found["cut"])
    house.figures["call without a network: said after, ms"] = after_ms
    assert "No connection" in text
    assert after_ms < KNOWN_MS + 500
    events = [event["type"] for event in found["after"]["events"]]
    assert "closed" not in events
    assert events.count("session.created") == 1


@in_chromium
def test_a_model_that_ends_is_replaced_or_the_page_says_so(visit: Visit, house: House) -> None:
    found = visit["without ollama"]
    at = found["cut"]["at"]
    errors = [when - at for when, _, _, text in found["broken"]["shown"] if when > at and text]
    sounds = [
        event["at"] - at
        for event in found["broken"]["events"]
        if event["type"] == "response.output_audio.delta" and event["at"] > at
    ]
    house.figures["call without ollama: said or answered after, ms"] = min(errors + sounds)
    assert min(errors + sounds) < SOON_MS


@in_chromium
@pytest.mark.parametrize("scene", ["accessibility", "accessibility in the dark"])
def test_it_is_accessible(visit: Visit, scene: str) -> None:
    visit.is_accessible(scene)


def test_a_narrow_phone_shows_all_of_it(visit: Visit) -> None:
    visit.fits_a_phone()


@in_chromium
def test_it_is_light_by_day_and_dark_by_night(visit: Visit) -> None:
    visit.is_light_and_dark()


def test_an_expired_login_is_told(visit: Visit) -> None:
    assert "log in" in visit["login ended"]["status"]


def test_a_call_from_the_chat_is_answered_while_it_is_written(
    chat_call: Visit, house: House
) -> None:
    # Each event passes through the chat's server.
    check_turns(chat_call["call"], house, "the chat", STOPS_MS + 100)


def test_the_chat_keeps_what_was_heard(chat_call: Visit) -> None:
    found = chat_call["call"]
    stored = found["stored"]
    assert [one["role"] for one in stored[:4]] == ["user", "assistant", "user", "assistant"]
    first = stored[1]
    assert first["voice"]["speech"][0]["interrupted"]
    check_heard(found, first["content"])
    # A person who reads the chat sees the same.
    shown = [one["text"] for one in found["chat"]["messages"] if not one["mine"]]
    assert shown[0].split() == first["content"].split()


def test_the_chat_says_that_the_call_has_ended(chat_call: Visit, house: House) -> None:
    found = chat_call["without voice"]
    after_ms, text = shown_after(found["broken"], found["cut"])
    house.figures["call of the chat without its server: said after, ms"] = after_ms
    assert "closed" in text
    assert after_ms < KNOWN_MS


def test_nothing_is_at_work_afterwards(chat_call: Visit, house: House) -> None:
    assert calls(house) == 0


def test_the_bench_measures_all_of_it(house: House) -> None:
    done = house.hearth("bench", "voice", "--quick", "--json", timeout=900)
    report = json.loads(done.stdout)
    for row in report["ratios"]:
        if row["value"] is not None:
            house.figures[f"bench voice: {row['what']}, {row['unit']}"] = row["value"]
    assert done.returncode == 0, done.stderr[-2000:] + json.dumps(report["ratios"], indent=1)
