"""Speech recognition in the house: its models, its satellites' port, its idle state, its death.

The deploy proves its accuracy (hearth/smoke/test_stt.py).
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests import lab_machine as lab
from tests.lab.house import ANSIBLE_S, CLONE, NAME, House

pytestmark = pytest.mark.lab

URL, SATELLITES = "http://10.140.30.30:8000", 10300
RECORDING = f"{CLONE}/hearth/clients/recordings/3s-1.opus"
REST_S = 2
TRIES = 3
TRANSCRIBE = (
    f"curl --silent --fail --max-time 60 --form file=@{RECORDING} --form model=whisper-1 "
    f"{URL}/v1/audio/transcriptions"
)
PATIENCE_S = 60
# The first message of a satellite. A device that is not allowed finds the port closed.
ASK = """
import json, socket, sys
plug = socket.socket()
plug.settimeout(5)
try:
    plug.connect((sys.argv[1], int(sys.argv[2])))
    plug.sendall(b'{"type": "describe"}\\n')
    print(json.loads(plug.makefile().readline())["type"])
except OSError as error:
    print(type(error).__name__)
"""
# Two clients while the server is killed: one streams speech, the other uploads a file.
DIE = """
import asyncio, json, ssl, subprocess, time
import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from hearth.clients.recordings import wav
from hearth.clients.recordings import BYTES, RATE, utterances
from hearth.paths import ROOT_CERTIFICATE
from hearth.project import VERIFIER, current

HEAD = {"Authorization": "Bearer " + current().vault.get(VERIFIER)}
TRUST = ssl.create_default_context(cafile=str(ROOT_CERTIFICATE))
SITE = "whisper.lan/v1/audio/transcriptions"
WORDS = utterances(3)[0].pcm
STEP = RATE * BYTES // 10
killed = asyncio.Event()
at_s = 0.0

async def talk():
    global at_s
    kinds = []
    async with connect(f"wss://{SITE}/stream", ssl=TRUST, additional_headers=HEAD) as line:
        async def speak():
            for turn in range(200):
                at = turn * STEP % (len(WORDS) - STEP)
                await line.send(WORDS[at : at + STEP])
                await asyncio.sleep(0.1)
        speaking = asyncio.create_task(speak())
        try:
            while True:
                kinds.append(json.loads(await line.recv())["type"])
                if kinds[-1] == "speech_started":
                    kill = "incus exec whisper -- systemctl kill --signal KILL whisper </dev/null"
                    await asyncio.sleep(0.5)
                    subprocess.run(["sh", "-c", kill], check=True)
                    at_s = time.monotonic()
                    killed.set()
        except ConnectionClosed:
            return {"kinds": kinds, "after_s": time.monotonic() - at_s}
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)

async def send():
    file = {"file": ("long.wav", wav(WORDS * 400))}
    async with httpx.AsyncClient(verify=TRUST, headers=HEAD, timeout=60) as client:
        try:
            answer = await client.post(f"https://{SITE}", files=file, data={"model": "whisper-1"})
            outcome = str(answer.status_code)
        except httpx.HTTPError as error:
            outcome = type(error).__name__
        return {"outcome": outcome, "killed": killed.is_set(), "after_s": time.monotonic() - at_s}

async def main():
    sending = asyncio.create_task(send())
    await asyncio.sleep(1)
    print(json.dumps({"streamer": await talk(), "sender": await sending}))

asyncio.run(main())
"""

# Ten seconds of speech, as fast as it is spoken.
TALK = """
import asyncio, json
from websockets.asyncio.client import connect
from hearth.clients.recordings import BYTES, RATE, utterances

SPEECH = utterances(10)[0].pcm + bytes(RATE * BYTES)
STEP = RATE * BYTES // 10

async def main():
    kinds = []
    async with connect("ws://10.140.30.30:8000/v1/audio/transcriptions/stream") as line:
        async def speak():
            for at in range(0, len(SPEECH), STEP):
                await line.send(SPEECH[at : at + STEP])
                await asyncio.sleep(0.1)
            await line.send('{"type": "end"}')
        speaking = asyncio.create_task(speak())
        async for message in line:
            kinds.append(json.loads(message)["type"])
        await speaking
    print(json.dumps(kinds))

asyncio.run(main())
"""


def status_of(house: House) -> dict[str, Any]:
    """Return the server's own status."""
    return dict(json.loads(house.shell(f"curl --silent --max-time 10 {URL}/status")))


def converge(house: House, tag: str) -> None:
    """Run one role's part of site.yml."""
    run = f"cd {CLONE}; ANSIBLE_NOCOLOR=1 .venv/bin/ansible-playbook site.yml --tags {tag}"
    house.shell(run, timeout=ANSIBLE_S)


def test_it_has_only_the_models_of_the_alias_and_its_draft(house: House) -> None:
    programs = set(house.shell("ls /var/lib/hearth/programs").split())
    assert {"whisper", "whisper_tiny", "whisper_tiny_en"} == {
        name for name in programs if name.startswith("whisper")
    }
    status = status_of(house)
    # The second one only where this machine was too busy for the first.
    assert status["model"] in ("tiny", "tiny.en"), status
    assert status["choice_reason"]
    # The measurements are not repeated after the next start.
    remembered = house.shell("incus exec whisper -- cat /var/lib/whisper/choice.json </dev/null")
    assert "tiny" in remembered


def test_it_transcribes_during_speech_in_any_language(house: House) -> None:
    script = f"cd {CLONE}; exec .venv/bin/python - <<'EOF'\n{TALK}EOF"
    # No language was named: a draft that knows only English would be silent each time.
    for _ in range(TRIES):
        kinds = json.loads(house.shell(script, timeout=60))
        # On busy processors there are no guesses.
        if seen := "partial" in kinds[: kinds.index("speech_ended")]:
            break
    assert seen, kinds
    assert kinds[-1] == "done"
    assert kinds.count("final") >= 1


@pytest.fixture
def allowed(house: House, guest: str) -> Iterator[str]:
    """Let the guest be a satellite, and no other device."""
    record = f"  whisper:\n    publish_tcp: {{{SATELLITES}: [{lab.address(guest)}]}}\n"
    before, after = "services:\n", f"services:\n{record}"
    assert knock(guest) != "info"
    house.edit("services.yml", before, after)
    try:
        converge(house, "firewall")
        yield guest
    finally:
        house.edit("services.yml", after, before)
        converge(house, "firewall")


def knock(who: str | None) -> str:
    """Return what the satellites' port answers to a machine of the LAN, or (`None`) to this one."""
    argv = ["python3", "-c", ASK, lab.address(NAME), str(SATELLITES)]
    if who is not None:
        return lab.run(who, argv, timeout=30, check=True).stdout.strip()
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.strip()


def test_only_named_satellites_connect(allowed: str) -> None:
    assert knock(allowed) == "info"
    # The machine that runs the lab is on the same link, with another address.
    assert knock(None) not in ("info", "")


@pytest.fixture
def resting(house: House) -> Iterator[None]:
    """Let the server unload its model after seconds."""
    before = house.set("whisper", {"whisper_unload_s": REST_S})
    try:
        converge(house, "whisper")
        yield
    finally:
        house.overlay(before)
        converge(house, "whisper")


@pytest.mark.usefixtures("resting")
def test_it_unloads_and_loads_again_on_request(house: House) -> None:
    # It may unload again before a second command has started.
    awake = json.loads(house.shell(f"{TRANSCRIBE} >/dev/null; curl --silent {URL}/status"))
    assert awake["loaded"]
    deadline = time.monotonic() + PATIENCE_S
    while (status := status_of(house))["loaded"]:
        assert time.monotonic() < deadline, status
        time.sleep(0.5)
    house.figures["memory of an idle STT server, MiB"] = status["memory_bytes"] / 2**20
    assert status["memory_bytes"] < awake["memory_bytes"]
    # A health check neither wakes it nor reports an error.
    assert '"ok"' in house.shell(f"curl --silent --max-time 5 {URL}/health")
    assert not status_of(house)["loaded"]
    assert json.loads(house.shell(TRANSCRIBE))["text"].strip()
    status = status_of(house)
    assert status["loads"] > awake["loads"]


def test_a_killed_server_leaves_no_client_waiting_and_no_file(house: House) -> None:
    script = f"cd {CLONE}; exec .venv/bin/python - <<'EOF'\n{DIE}EOF"
    found = json.loads(house.shell(script, timeout=120))
    streamer, sender = found["streamer"], found["sender"]
    assert "speech_started" in streamer["kinds"], found
    house.figures["a streaming client knows that the server died after, s"] = streamer["after_s"]
    assert 0 <= streamer["after_s"] < 5, found
    # Caddy's own error, where the server's response had not started.
    assert sender["outcome"] in ("502", "ReadError", "RemoteProtocolError"), found
    assert sender["killed"], found
    assert sender["after_s"] < 5, found
    house.wait_green()
    left = house.shell("incus exec whisper -- find /var/lib/whisper -type f </dev/null").split()
    assert left == ["/var/lib/whisper/choice.json"]
