"""A house of containers: which engine runs it, what is refused, and whether it is up."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hearth.machine import compose
from hearth.machine.compose import ComposeHouseError, Engine
from hearth.machine.facts import Listener

DOCKER = Engine("docker", ("docker", "compose"))
PODMAN = Engine("podman", ("podman-compose",))
FILES = {"compose.yml": "services: {caddy: {}}\nvolumes: {pki:}\nnetworks: {lan:}\n"}
Fake = Callable[[str, str], None]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A function that puts a shell script in a command's place, and hides the real ones."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def make(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return make


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compose, "COMPOSE", tmp_path / "compose")
    return tmp_path / "compose"


def info(**given: object) -> str:
    return f"echo '{json.dumps(given)}'"


def test_the_engine_is_what_is_installed_or_what_is_wanted(fake: Fake) -> None:
    with pytest.raises(ComposeHouseError, match="neither Docker nor Podman is here"):
        compose.engine()
    fake("docker", "exit 0")
    assert compose.engine().name == "docker"
    with pytest.raises(ComposeHouseError, match="podman: install it with its compose command"):
        compose.engine("podman")
    fake("podman", 'test "$1" = ps && echo 1234')
    fake("podman-compose", "exit 0")
    # The one with containers of the house is its engine.
    assert compose.engine().name == "podman"
    assert compose.engine("docker").name == "docker"


def test_a_rootless_socket_is_refused(fake: Fake) -> None:
    fake("docker", info(SecurityOptions=["name=seccomp", "name=rootless"]))
    with pytest.raises(ComposeHouseError, match=r"^docker: this is a rootless socket"):
        compose.check(DOCKER, "")
    fake("podman", info(host={"security": {"rootless": True}}))
    with pytest.raises(ComposeHouseError, match=r"^podman: this is a rootless socket"):
        compose.check(PODMAN, "")
    fake("podman", info(host={"security": {"rootless": False}}))
    compose.check(PODMAN, "")


def test_networks_that_are_open_to_each_other_are_refused(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, pid = tmp_path / "daemon.json", tmp_path / "docker.pid"
    monkeypatch.setattr(compose, "_DAEMON", settings)
    monkeypatch.setattr(compose, "_DAEMON_PID", pid)
    fake("docker", info(SecurityOptions=[]))
    compose.check(DOCKER, "")
    settings.write_text('{"iptables": true}')
    compose.check(DOCKER, "")
    settings.write_text('{"iptables": false}')
    with pytest.raises(ComposeHouseError, match=f"`iptables` is false in {settings}, so its"):
        compose.check(DOCKER, "")
    settings.unlink()
    with subprocess.Popen(
        [sys.executable, "-c", "input()", "--iptables=false"], stdin=subprocess.PIPE
    ) as daemon:
        pid.write_text(f"{daemon.pid}\n")
        with pytest.raises(ComposeHouseError, match="`iptables` is false in the options of docker"):
            compose.check(DOCKER, "")
        daemon.terminate()


def test_a_card_without_its_description_is_refused(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake("docker", info(SecurityOptions=[]))
    monkeypatch.setattr(compose, "_CDI", (tmp_path,))
    with pytest.raises(ComposeHouseError, match="run `nvidia-ctk cdi generate"):
        compose.check(DOCKER, "cuda")
    (tmp_path / "nvidia.yaml").touch()
    with pytest.raises(ComposeHouseError, match="docker: CDI is off: write"):
        compose.check(DOCKER, "cuda")
    fake("docker", info(SecurityOptions=[], CDISpecDirs=["/etc/cdi"]))
    compose.check(DOCKER, "cuda")


def test_an_engine_that_does_not_answer_is_one_line(fake: Fake) -> None:
    fake("docker", 'echo "Cannot connect to the Docker daemon at X" >&2; exit 1')
    with pytest.raises(
        ComposeHouseError, match=r"^docker: Cannot connect to the Docker daemon at X$"
    ):
        compose.check(DOCKER, "")


@pytest.mark.parametrize(
    ("line", "todo"),
    [
        ("bind for 0.0.0.0:443 failed: port is already allocated", "another container has this"),
        ("listen tcp4 0.0.0.0:80: bind: address already in use", "another program has this port"),
        ('the name "/hearth-caddy-1" is already in use by container "ab"', "of another project"),
        ("write /var/lib/x: no space left on device", "make room"),
        ("No such image: hearth-kokoro:1", "build the images first"),
        ("exec /usr/bin/python3: exec format error", "for another kind of processor: build it on"),
        ("listen tcp4 192.0.2.9:443: bind: cannot assign requested address", "HEARTH_ADDRESS in"),
    ],
)
def test_what_engines_say_comes_with_what_to_do(line: str, todo: str) -> None:
    text = compose.explained(line)
    assert text.startswith(line)
    assert todo in text
    assert "\n" not in text


def test_files_edited_by_hand_are_reported_and_written_again(folder: Path) -> None:
    files = {"compose.yml": "a", "config/it/x": "b"}
    assert compose.write_files(files) == []
    assert compose.write_files(files) == []
    (folder / "compose.yml").write_text("mine")
    (folder / ".env").write_text("HEARTH_ADDRESS=192.0.2.1\n")
    assert compose.write_files({"compose.yml": "a"}) == ["compose.yml"]
    assert (folder / "compose.yml").read_text() == "a"
    assert not (folder / "config/it/x").exists()
    assert (folder / ".env").read_text() == "HEARTH_ADDRESS=192.0.2.1\n"


def test_files_of_a_run_that_was_killed_are_not_taken_for_edits(folder: Path) -> None:
    compose.write_files({"compose.yml": "a"})
    # It wrote this one and not yet what it had written.
    (folder / "compose.yml").write_text("b")
    assert compose.write_files({"compose.yml": "b"}) == []


def test_a_full_disk_is_one_line_and_leaves_the_old_file_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compose.write_files({"compose.yml": "old"})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ComposeHouseError) as caught:
        compose.write_files({"compose.yml": "new"})
    assert str(caught.value) == f"{folder}: cannot write it: No space left on device: make room"
    assert (folder / "compose.yml").read_text() == "old"


@pytest.mark.parametrize(
    ("one", "kind", "name"),
    [
        (DOCKER, "container", "hearth-caddy-1"),
        (PODMAN, "container", "hearth_caddy_1"),
        (DOCKER, "volume", "hearth_pki"),
        (PODMAN, "network", "hearth_lan"),
    ],
)
def test_a_name_that_is_not_ours_is_refused_before_anything_is_made(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, one: Engine, kind: str, name: str
) -> None:
    monkeypatch.setattr(compose, "listeners", list)
    word = {"container": "ps"}.get(kind, kind)
    there = f'case "$*" in *--filter*) ;; {word}*) echo {name}; echo other;; esac'
    fake(one.name, there)
    with pytest.raises(ComposeHouseError) as caught:
        compose.refuse_strangers(one, FILES)
    assert str(caught.value) == (
        f"{one.name}: there is a {kind} {name} that is not this house's: rename it, or remove it "
        f"with `{one.name} {kind} rm {name}`"
    )
    # With the house's label it is ours, and other names are no matter.
    fake(one.name, f'case "$*" in {word}*) echo {name};; esac')
    compose.refuse_strangers(one, FILES)


def test_a_port_that_is_taken_is_refused_before_anything_is_made(
    fake: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        Listener("tcp", "127.0.0.1", 443, "nginx.service"),
        Listener("udp", "0.0.0.0", 53, "dnsmasq"),
        Listener("tcp", "0.0.0.0", 8443, ""),
    ]
    monkeypatch.setattr(compose, "listeners", lambda: found)
    fake("docker", "exit 0")
    with pytest.raises(ComposeHouseError) as caught:
        compose.refuse_strangers(DOCKER, FILES)
    assert str(caught.value) == (
        "port 443/tcp is held by nginx.service: stop that program, or change HEARTH_HTTPS_PORT in "
        f"{folder}/.env"
    )
    folder.mkdir()
    (folder / ".env").write_text("# HEARTH_ADDRESS=no\nHEARTH_HTTPS_PORT=4443\n")
    compose.refuse_strangers(DOCKER, FILES)
    (folder / ".env").write_text("HEARTH_HTTPS_PORT=8443\n")
    with pytest.raises(ComposeHouseError, match="port 8443/tcp is held by another program"):
        compose.refuse_strangers(DOCKER, FILES)
    # Of one address, what listens on another one is no matter; the resolver comes with it.
    (folder / ".env").write_text("HEARTH_ADDRESS=192.0.2.1\n")
    assert compose.profiles() == ["dns"]
    with pytest.raises(ComposeHouseError, match="port 53/udp is held by dnsmasq"):
        compose.refuse_strangers(DOCKER, FILES)
    # The house itself holds them while it runs.
    fake("docker", 'case "$*" in *--quiet*) echo 1234;; esac')
    compose.refuse_strangers(DOCKER, FILES)


def test_a_container_that_ended_says_why_the_house_does_not_start(fake: Fake, folder: Path) -> None:
    line = "hearth-init: /var/lib/hearth/secrets/x: No space left on device: make room"
    fake(
        "docker",
        'case "$*" in compose*) echo \'service "init" did not complete: exit 1\' >&2; exit 1;;\n'
        "*--quiet*) echo 1234;; ps*) printf 'init\\tExited (1) 1 second ago\\n';;\n"
        f"logs*) echo '{line}' >&2;; esac",
    )
    with pytest.raises(ComposeHouseError) as caught:
        compose.up(DOCKER, "", [])
    assert str(caught.value).startswith(f"init: {line}")
    assert "\n" not in str(caught.value)


def test_limits_are_left_out_without_controllers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose, "_controllers", list)
    assert compose.compose_command(DOCKER, "", []) == [
        *("docker", "compose", "-f", f"{folder}/compose.yml"),
    ]
    monkeypatch.setattr(compose, "_controllers", lambda: ["memory", "pids"])
    words = compose.compose_command(Engine("podman", ("podman-compose",)), "cuda", ["dns"])
    assert words == [
        *("podman-compose", "-f", f"{folder}/compose.yml", "-f", f"{folder}/cuda-podman.yml"),
        *("-f", f"{folder}/limits.yml", "--profile", "dns"),
    ]


def test_what_is_not_healthy_is_named(fake: Fake) -> None:
    rows = [
        ("caddy", "Up 2 minutes (healthy)"),
        ("init", "Exited (0) 2 minutes ago"),
        ("kokoro", "Up 5 seconds (health: starting)"),
        ("litellm", "Exited (1) 3 seconds ago"),
        ("ollama-models", "Up 2 minutes"),
        ("whisper", "Restarting (2) 1 second ago"),
    ]
    fake("docker", "printf '%s\\n' " + " ".join(f"'{name}\t{state}'" for name, state in rows))
    assert [*compose.unhealthy(DOCKER)] == ["kokoro", "litellm", "whisper"]


def test_smoke_tests_of_instances_are_not_measured_in_this_form(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from hearth.smoke.hosts import host\n\n"
        "def test_a_unit_is_hardened():\n    host('kokoro')\n"
    )
    events = tmp_path / "events"
    argv = [sys.executable, "-m", "pytest", "-p", "hearth.smoke.plugin", "-p", "no:cacheprovider"]
    subprocess.run(
        [*argv, f"--hearth-events={events}", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "HEARTH_FORM": "compose"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    [verdict] = [
        event
        for event in map(json.loads, events.read_text().splitlines())
        if event["kind"] == "verdict"
    ]
    assert verdict["outcome"] == "not measured"
    assert verdict["detail"].startswith("not in this form: ")


def test_a_container_is_reached_where_its_program_listens(fake: Fake) -> None:
    def container(service: str, **nets: str) -> dict[str, object]:
        return {
            "Config": {"Labels": {"com.docker.compose.service": service}},
            "NetworkSettings": {"Networks": {n: {"IPAddress": ip} for n, ip in nets.items()}},
        }

    shown = json.dumps(
        [
            container("ollama-program", **{"a_ollama-egress": "10.0.0.2", "a_inside": "10.0.1.2"}),
            container("login"),
        ]
    )
    fake("docker", f"case $1 in ps) echo 1 2;; inspect) echo '{shown}';; esac")
    assert compose.addresses() == {"ollama-program": "10.0.1.2"}
