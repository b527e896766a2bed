"""The rendered compose file with Debian's Docker: a house of containers that answers and speaks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
import yaml

from tests import lab_machine as lab
from tests.lab import breaking, packages
from tests.lab.house import CLONE, NAME, OVERLAY, Answer, House, ask
from tests.lab.saved import HOUSE

pytestmark = pytest.mark.lab

# Enough for a chat and for speech; every image that is built costs its Debian.
LEFT_OUT = ("whisper", "pipelines", "open_webui")
COMPOSE = f"docker compose -f {CLONE}/compose/compose.yml"
RENDER = f"cd {CLONE}; ANSIBLE_NOCOLOR=1 .venv/bin/ansible-playbook ansible/playbooks/render.yml"
SHOW = (
    f"{COMPOSE} run --rm --quiet-pull -T init /usr/bin/python3 -m hearth_init "
    "--config /etc/hearth/init.json --show"
)
STATES = "docker ps --all --format '{{.Label \"com.docker.compose.service\"}} {{.Status}}'"
ROOT = "/root/containers.crt"
SPEAK, CHAT = "https://kokoro-stream.lan/v1/audio/speech", "https://llm.lan/v1/chat/completions"
MODEL = "qwen2.5-coder:1.5b"
HEALTHY_S, ANSWER_S = 240, 120
# As on a machine without the house: its ports are free, and its instances take no time.
ALONE = (
    "systemctl stop hearth-watch hearth-health hearth-caddy hearth-login hearth-trust\n"
    "incus stop --all --force </dev/null"
)


@pytest.fixture(scope="module", autouse=True)
def _containers(house: House) -> Iterator[None]:
    """Install Docker, start the containers, and afterwards restore the house from before."""
    try:
        packages.install(house, "docker.io", "docker-compose")
        house.shell(ALONE)
        content = yaml.safe_load(house.inside("/bin/cat", OVERLAY, check=True).stdout)
        for name in LEFT_OUT:
            content["services"].setdefault(name, {})["contained"] = False
        content.setdefault("parts", {}).setdefault("dnsmasq", {})["contained"] = False
        house.overlay(yaml.safe_dump(content))
        began = time.monotonic()
        house.shell(f"{RENDER} >/dev/null; scripts/hearth images build --into docker", timeout=600)
        house.figures["images of a house that chats and speaks, s"] = time.monotonic() - began
        yield
    finally:
        house.back_to(HOUSE)


def states(house: House) -> dict[str, str]:
    """Return the state of each container of the house, by its service."""
    lines = house.shell(STATES).splitlines()
    return dict(line.split(" ", 1) for line in lines)


def call(house: House, address: str, key: str, *more: str) -> Answer:
    """Send a request to a page of the containers, from the machine itself."""
    name = address.split("/")[2]
    return ask(NAME, ROOT, MODEL, key, "--resolve", f"{name}:443:127.0.0.1", *more, address=address)


@pytest.fixture(scope="module")
def key(house: House) -> str:
    """A consumer's key, after all has been started."""
    began = time.monotonic()
    house.shell(f"{COMPOSE} up --detach", timeout=HEALTHY_S)
    breaking.until(
        house, "healthy containers", f"! {STATES} | grep -E 'health: |unhealthy|Created'", HEALTHY_S
    )
    house.figures["containers from nothing to healthy, s"] = time.monotonic() - began
    house.shell(f"{SHOW} root.crt >{ROOT}")
    return house.shell(f"{SHOW} consumer_household").strip()


def test_every_container_is_healthy_and_the_preparation_has_ended(house: House, key: str) -> None:
    found = states(house)
    assert found.pop("init").startswith("Exited (0)")
    # One has no health of its own: it pulls models in the background.
    found.pop("ollama-models")
    assert {"caddy", "login", "trust", "ollama", "ollama-program", "litellm", "kokoro"} == {*found}
    assert all("(healthy)" in state for state in found.values()), found


def test_it_answers_over_https_to_who_has_a_key(house: House, key: str) -> None:
    deadline = time.monotonic() + ANSWER_S
    while (answer := call(house, CHAT, key)).status != 200:
        assert time.monotonic() < deadline, answer
        time.sleep(1)
    assert answer.json["choices"][0]["message"]["content"].strip()
    assert call(house, CHAT, "sk-wrong").status == 401


def test_it_speaks(house: House, key: str) -> None:
    body = json.dumps({"model": "kokoro", "input": "Good morning.", "response_format": "wav"})
    argv = ["curl", "--silent", "--show-error", "--fail", "--max-time", "60", "--cacert", ROOT]
    argv += ["--resolve", "kokoro-stream.lan:443:127.0.0.1", "--header", "@-", "--json", body]
    argv += ["--output", "/root/spoken.wav", "--write-out", "%{time_starttransfer}", SPEAK]
    done = lab.run(NAME, argv, stdin=f"Authorization: Bearer {key}", timeout=90)
    assert done.returncode == 0, done.stderr
    house.figures["first byte of speech of a container, s"] = float(done.stdout)
    found = house.shell("head --bytes 4 /root/spoken.wav; stat --format ' %s' /root/spoken.wav")
    kind, size = found.split()
    assert kind == "RIFF"
    # Half a second, 24,000 samples of 16 bits a second.
    assert int(size) > 24_000


def test_a_container_reaches_what_it_needs_and_nothing_else(house: House, key: str) -> None:
    def reaches(source: str, name: str, port: int) -> bool:
        program = f"import socket; socket.create_connection(('{name}', {port}), 5)"
        script = f'docker exec hearth-{source}-1 /usr/bin/python3 -c "{program}"'
        return house.inside("/bin/sh", "-c", script).returncode == 0

    assert reaches("litellm", "ollama", 11434)
    assert reaches("caddy", "kokoro", 8880)
    for source, name, port in (
        ("kokoro", "litellm", 4000),
        ("caddy", "ollama", 11434),
        ("litellm", "ollama-inside", 11434),
        # The machine's own resolver, as an example of what is outside of the house.
        ("kokoro", "1.1.1.1", 443),
    ):
        assert not reaches(source, name, port), (source, name)


def test_a_second_start_changes_nothing(house: House, key: str) -> None:
    ids = "docker ps --all --quiet --no-trunc --filter label=com.docker.compose.project | sort"
    before = house.shell(ids)
    began = time.monotonic()
    house.shell(f"{COMPOSE} up --detach", timeout=60)
    house.figures["a second start of containers, s"] = time.monotonic() - began
    assert house.shell(ids) == before
