"""What the tests of the chat page share: how a browser opens it, and checks of what it found."""

from __future__ import annotations

import json
import wave
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hearth.clients.recordings import BYTES, RATE
from tests import lab_machine as lab
from tests.lab import chat, visitor
from tests.lab.house import House
from tests.lab.test_stt_page import SOUND, SPOKEN, silence
from tests.lab.visitor import Visit

PAGE = "https://chat.lan/"
PICTURE, DOCUMENT = "/srv/red.png", "/srv/ferry.pdf"
SENTENCE = "The ferry to the island leaves at seven minutes past nine."
QUESTION = "When does the ferry to the island leave?"
# What Open WebUI's own page logs as an error in Chromium, with any server.
UPSTREAM = (
    # Its manifest declares a share target without naming an encoding.
    "Manifest: Enctype should be set",
    # It opens its WebSocket before the login.
    "No token found in localStorage",
    # It requests channels, which this house has turned off, when its WebSocket connects after the
    # page has loaded: at every reconnection, and on a slow machine at the first connection, too.
    "HTTP 403: https://chat.lan/api/v1/channels/",
    "the server responded with a status of 403",
)
# What a browser itself logs about a connection that breaks and a server that is down.
CUT = ("WebSocket connection to", "HTTP 502", "status of 502")


def furnish(guest: str, folder: Path) -> None:
    """Copy to the guest the speech for its microphone and the files that it uploads."""
    # After two seconds of silence the speech is over, and the chat answers.
    with wave.open(str(folder / "speech.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(BYTES)
        file.setframerate(RATE)
        file.writeframes(silence(0.5) + SPOKEN[0].pcm + silence(4))
    (folder / "red.png").write_bytes(chat.png())
    (folder / "ferry.pdf").write_bytes(chat.pdf(SENTENCE))
    for name, there in (("speech.wav", SOUND), ("red.png", PICTURE), ("ferry.pdf", DOCUMENT)):
        lab.copy_in(guest, folder / name, there)


def come(
    house: House,
    guest: str,
    browser: str,
    play: str,
    actions: Mapping[str, Callable[[], object]] | None = None,
    **more: Any,
) -> Visit:
    """Let a browser play scenes, logged in as the administrator."""
    done = house.hearth("secret", "show", chat.PASSWORD, "--plain")
    assert done.returncode == 0, done.stderr
    given = json.loads(house.shell(f"incus exec open-webui -- cat {chat.SETTINGS} </dev/null"))
    return visitor.visit(
        *(guest, browser, play, PAGE, done.stdout.strip()),
        actions=actions,
        email=given["environment"]["WEBUI_ADMIN_EMAIL"],
        sound=SOUND,
        picture=PICTURE,
        document=DOCUMENT,
        question=QUESTION,
        **more,
    )


def quiet(found: Any, *known: str) -> None:
    """Check that the page loaded nothing from other hosts and logged no unknown error."""
    assert found["refusals"] == []
    expected = (*UPSTREAM, *known)
    strange = [one for one in found["complaints"] if not any(part in one for part in expected)]
    assert not strange, strange


def answers(found: Any, before: str = "") -> str:
    """Check that the last message was answered without an error; return the answer.

    `before` is an error that the page showed earlier and may still show.
    """
    *_, question, answer = found["messages"]
    assert question["mine"]
    assert not answer["mine"]
    assert answer["text"]
    shown = {line for _, text in found["toasts"] for line in text.splitlines() if line}
    # Notices of the page that are no errors.
    assert shown - {*before.splitlines(), "You're now logged in.", "Reconnected"} == set()
    return str(answer["text"])
