"""The chat in a browser while the house is slow or breaks: which errors appear, what is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lab.chat_visit import CUT, answers, come, furnish, quiet
from tests.lab.house import House
from tests.lab.visitor import Visit

pytestmark = pytest.mark.lab

# An error that appears within this time explains why nothing comes.
SHOWN_MS = 5000
# After a reload of Caddy; the page reconnects after half a second to one and a half.
BACK_MS = 5000
TEA_MS = 600_000
# A made-up model answers at once. So that something can happen in the middle of an answer, its
# server runs a thousandth of a second at a time, and then is stopped.
DRIP = """
import os, pathlib, signal, time

def tell(number):
    for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text() == "llama-server\\n":
                os.kill(int(comm.parent.name), number)
        except OSError:
            pass

while True:
    tell(signal.SIGCONT)
    time.sleep(0.001)
    tell(signal.SIGSTOP)
    time.sleep(0.15)
"""
END = "systemctl stop slow-model 2>/dev/null || true"
SLOW = f"{END}; systemd-run --quiet --collect --unit=slow-model python3 -c '{DRIP}'"
HELD = f"{END}; pkill -STOP -x llama-server"
FAST = f"{END}; pkill -CONT -x llama-server || true"


@pytest.fixture(scope="module")
def visit(house: House, guest: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """A visit in which programs end one after the other; all of them run again after it."""
    furnish(guest, tmp_path_factory.mktemp("inputs"))
    try:
        return come(house, guest, "chromium", "breaking", actions(house))
    finally:
        house.shell(f"{FAST}; {inside('open-webui', 'start')}")
        house.wait_green()


def actions(house: House) -> dict[str, Callable[[], object]]:
    """Return the actions outside the browser that scenes may request."""

    def run(script: str) -> Callable[[], object]:
        return lambda: house.shell(script)

    killed = "kill --signal=KILL"
    services = ("litellm", "ollama", "kokoro")
    return {
        "slow the model": run(SLOW),
        "hold the model": run(HELD),
        "let the model run": run(FAST),
        # A file that appears now does so while nothing reads it.
        "reload the reverse proxy": run(f"systemctl reload hearth-caddy; {FAST}"),
        **{f"end {name}": run(inside(name, killed)) for name in services},
        **{f"wait for {name}": house.wait_green for name in services},
        # Killed, it would be back before the page noticed; stopped, it stays away.
        "stop open_webui": run(f"{inside('open-webui', killed)}; {inside('open-webui', 'stop')}"),
        "start open_webui": run(inside("open-webui", "start")),
    }


def inside(service: str, words: str) -> str:
    """Return the command that runs systemctl on a service's unit."""
    return f"incus exec {service} -- systemctl {words} {service}.service </dev/null"


def test_a_call_is_answered_while_the_answer_is_still_coming(visit: Visit, house: House) -> None:
    found = visit["call"][-1]
    question, answer = found["messages"]
    assert question["mine"]
    assert question["text"]
    first, *_ = found["answers"]
    assert first["status"] == 200
    # A sentence of it, requested before the last word had come.
    assert first["at"] < found["states"][-1][0]
    assert len(first["request"]["input"]) < len(answer["text"])
    assert first["type"].startswith("audio/")
    assert first["bytes"] > 1000
    came = next(at for at, length in found["states"] if length)
    house.figures["first words to their sound in a call, ms"] = first["last_byte"] - came
    quiet(found)


def test_a_reload_of_the_reverse_proxy_loses_nothing(visit: Visit, house: House) -> None:
    found = visit["reload"]
    running = found["running"]
    cut, back = running["lines"]
    assert cut["ended"] > found["cut"]["at"], "the reverse proxy did not end the connection"
    away = back["greeted"] - cut["ended"]
    house.figures["live line back after a reload of Caddy, ms"] = away
    assert away < BACK_MS
    # Some of it was there before, and more came after.
    assert answers(running).startswith(found["before"])
    assert len(answers(running)) > len(found["before"])
    answers(found["after"])
    texts = [one["text"] for one in found["kept"]]
    assert texts == [one["text"] for one in found["after"]["messages"]]
    assert texts[-3] == running["messages"][-1]["text"], "words of the stream were lost"
    quiet(running, *CUT)


@pytest.mark.parametrize("program", ["LiteLLM", "Ollama"])
def test_a_broken_answer_shows_an_error_and_stays(visit: Visit, house: House, program: str) -> None:
    found = visit[f"without {program}"]
    broken = found["broken"]
    errors = [(at, text) for at, text in broken["toasts"] if text]
    assert errors, "no error was shown"
    shown_ms = errors[0][0] - found["cut"]["at"]
    house.figures[f"error without {program} shown after, ms"] = shown_ms
    assert shown_ms < SHOWN_MS
    understood(errors[0][1])
    # The text until then, and the same text under the error, where it stays.
    assert broken["last"].startswith(found["before"].rstrip())
    assert errors[0][1].splitlines()[0] in broken["last"]
    answers(found["next"], errors[-1][1])
    # The chat so far is above it, and the server has it, too.
    assert found["next"]["messages"][-3]["text"] == broken["last"]
    assert [one["text"] for one in found["kept"]] == [
        one["text"] for one in found["next"]["messages"]
    ]
    quiet(broken)


def understood(text: str) -> None:
    """Check that a person can read it: a sentence, without a name from a program."""
    assert " " in text
    for foreign in ("Error:", "<", "{", "payload", "NoneType", "Traceback", "aiohttp"):
        assert foreign not in text, text


def test_a_failed_read_aloud_shows_an_error(visit: Visit, house: House) -> None:
    found = visit["without Kokoro"]
    answers(found["turn"])
    errors = [(at, text) for at, text in found["broken"]["toasts"] if text]
    shown_ms = errors[0][0] - found["cut"]["at"]
    house.figures["error without Kokoro shown after, ms"] = shown_ms
    assert shown_ms < SHOWN_MS
    understood(errors[0][1])
    answers(found["next"], errors[-1][1])


def test_a_missing_server_shows_a_notice_until_it_is_back(visit: Visit, house: House) -> None:
    found = visit["without its server"]
    away, following = found["away"], found["next"]
    notices = [(at, text) for at, text in away["notices"] if text]
    shown_ms = notices[0][0] - found["cut"]["at"]
    house.figures["error without Open WebUI shown after, ms"] = shown_ms
    assert shown_ms < SHOWN_MS
    # The notice stays for as long as it is true.
    assert away["notices"][-1][1] == notices[-1][1]
    # The text that was written meanwhile was not sent, and is still there.
    assert found["field"] == found["held"] == "Are you there?"
    assert len(away["messages"]) == 2
    assert following["notices"][-1][1] == ""
    answers(following, "Connection lost. Reconnecting...")
    assert len(following["messages"]) == 4
    quiet(following, *CUT)


@pytest.mark.long
def test_the_websocket_survives_ten_idle_minutes(house: House, guest: str) -> None:
    visit = come(house, guest, "chromium", "waiting", idle_ms=TEA_MS, within_s=900)
    found = visit["idle"]
    answers(found["after"])
    assert len(found["after"]["lines"]) == 1, "it was cut"
    quiet(found["after"])
