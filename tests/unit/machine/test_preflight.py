"""Every violation is reported at once, each in one line with its fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hearth.catalogue.house import Service
from hearth.machine.environment import Environment
from hearth.machine.facts import Facts, Graphics, Listener
from hearth.machine.preflight import choose_accelerator, violations_and_warnings
from tests.unit.machine.samples import CARD, GIB, HOUSE, facts, service


def violations(
    services: dict[str, Service],
    machine: Facts,
    listeners: Sequence[Listener] = (),
    locked_out: bool = False,
) -> list[str]:
    """Return what prevents a house with these services alone."""
    environment = Environment(listeners=tuple(listeners), locked_out=locked_out)
    return violations_and_warnings(replace(HOUSE, services=services), machine, environment)[0]


def warnings(services: dict[str, Service], machine: Facts, locked_out: bool = False) -> list[str]:
    """Return the warnings about these services."""
    house, environment = replace(HOUSE, services=services), Environment(locked_out=locked_out)
    return violations_and_warnings(house, machine, environment)[1]


@pytest.mark.parametrize(
    ("wanted", "machine", "chosen"),
    [
        ("none", facts(nvidia_card=True, nvidia_tool=True), "none"),
        ("software", facts(render_nodes=(CARD,)), "software"),
        ("auto", facts(), "none"),
        ("auto", facts(render_nodes=(CARD,)), "vulkan"),
        ("auto", facts(nvidia_card=True, nvidia_tool=True, render_nodes=(CARD,)), "cuda"),
        ("auto", facts(nvidia_card=True), "none"),
    ],
)
def test_auto_takes_the_card_of_the_machine(wanted: str, machine: Facts, chosen: str) -> None:
    assert choose_accelerator(wanted, machine.graphics) == chosen


def test_a_good_machine_has_no_violation() -> None:
    own = [
        Listener("udp", "192.0.2.10", 53, "hearth-dnsmasq.service"),
        Listener("tcp", "0.0.0.0", 443, "hearth-caddy.service"),
        Listener("tcp", "0.0.0.0", 8096, "jellyfin.service"),
        Listener("tcp", "*", 80, "hearth-caddy.service"),
        Listener("udp", "127.0.0.53", 53, "systemd-resolved.service"),
        Listener("tcp", "127.0.2.1", 53, "dnscrypt-proxy.service"),
        Listener("udp", "10.9.9.1", 53, "incus.service"),
        Listener("udp", "fe80::1", 53, "incus.service"),
        Listener("udp", "127.0.0.1", 443, "somebodys.service"),
    ]
    assert violations({"open_webui": service()}, facts(), own) == []


def test_another_debian_is_refused() -> None:
    assert violations({}, facts(debian="12"), []) == [
        "this machine runs Debian 12; a house needs Debian 13 "
        "(a lab machine works on any host: scripts/up --lab)"
    ]


@pytest.mark.parametrize(
    ("listener", "line"),
    [
        (
            Listener("tcp", "0.0.0.0", 80, "nginx.service"),
            "port 80/tcp is held by nginx.service; Hearth needs it for the house: stop that "
            "program, or change its port",
        ),
        (
            Listener("udp", "::", 53, ""),
            "port 53/udp is held by another program; Hearth needs it for the house: stop that "
            "program, or change its port",
        ),
        (
            Listener("tcp", "192.0.2.10", 443, "apache2.service"),
            "port 443/tcp is held by apache2.service on 192.0.2.10; Hearth needs it for the house: "
            "stop that program, or change its port",
        ),
    ],
)
def test_a_port_in_use_is_refused(listener: Listener, line: str) -> None:
    assert violations({}, facts(), [listener]) == [line]


@pytest.mark.parametrize(
    ("protocol", "address", "port"),
    [
        # The reverse proxy listens on all addresses, so each one must be free.
        ("tcp", "127.0.0.1", 80),
        ("tcp", "10.8.0.1", 443),
        ("tcp", "fe80::1", 80),
        # The resolver listens on the loopback as well.
        ("udp", "127.0.0.1", 53),
        ("tcp", "::1", 53),
    ],
)
def test_a_port_in_use_on_one_address_is_refused(protocol: str, address: str, port: int) -> None:
    (line,) = violations({}, facts(), [Listener(protocol, address, port, "unbound.service")])
    assert line.startswith(f"port {port}/{protocol} is held by unbound.service on {address}; Hear")


def test_a_full_disk_is_refused() -> None:
    assert violations({}, facts(disk_free_bytes=2 * GIB), []) == [
        "/var has 2.0 GiB free; images and programs need 6 GiB before the first model: free some"
    ]


def test_a_disk_full_of_models_is_accepted_later() -> None:
    assert violations({}, facts(disk_free_bytes=2 * GIB, built=True), []) == []


def test_a_card_that_cannot_be_used_is_a_warning() -> None:
    services = {"ollama": service(gpu="auto"), "kokoro": service(gpu="none")}
    assert warnings(services, facts(nvidia_card=True, render_nodes=(CARD,))) == [
        "ollama: there is an NVIDIA card, but not NVIDIA's package nvidia-container-toolkit, so "
        "gpu: auto takes vulkan"
    ]
    (line,) = warnings(services, facts(nvidia_card=True))
    assert line.endswith("gpu: auto takes the processor")
    assert warnings(services, facts(nvidia_card=True, nvidia_tool=True)) == []
    assert warnings(services, facts(render_nodes=(CARD,))) == []


def test_auto_warns_that_it_takes_the_processor_and_not_mesas_device() -> None:
    services = {"ollama": service(gpu="auto"), "kokoro": service(gpu="none")}
    assert warnings(services, facts()) == [
        "ollama: there is no GPU here, so gpu: auto takes the processor; llvmpipe, which Mesa "
        "offers without one, is a software device and not a GPU"
    ]


@pytest.mark.parametrize(
    ("gpu", "seen", "absent"),
    [
        ("auto", Graphics((), False, False), True),
        ("auto", Graphics((CARD,), False, False), False),
        ("vulkan", Graphics((), True, True), True),
        ("cuda", Graphics((CARD,), True, False), True),
        ("cuda", Graphics((), True, True), False),
        ("none", Graphics((), False, False), False),
    ],
)
def test_a_service_that_waits_for_its_gpu_stays_off(gpu: str, seen: Graphics, absent: bool) -> None:
    assert seen.has(gpu) is not absent


@pytest.mark.parametrize(
    ("gpu", "machine", "line"),
    [
        (
            "cuda",
            facts(),
            "ollama asks for gpu: cuda, and /dev/nvidia0 is not there: install the NVIDIA driver "
            "(package nvidia-driver), or write gpu: auto",
        ),
        (
            "cuda",
            facts(nvidia_card=True),
            "ollama asks for gpu: cuda, and nvidia-container-cli is not there: install NVIDIA's "
            "package nvidia-container-toolkit, or write gpu: auto",
        ),
        (
            "vulkan",
            facts(),
            "ollama asks for gpu: vulkan, and this machine has no render node in /dev/dri; "
            "Mesa's llvmpipe is a software device and not a GPU: write gpu: auto, or gpu: "
            "software to use llvmpipe on purpose",
        ),
    ],
)
def test_a_requested_gpu_that_is_missing_is_refused(gpu: str, machine: Facts, line: str) -> None:
    assert violations({"ollama": service(gpu=gpu)}, machine, []) == [line]


def test_a_card_that_secure_boot_blocks_is_reported() -> None:
    services = {"ollama": service(gpu="cuda")}
    (line,) = violations(services, facts(), [], locked_out=True)
    assert line.startswith("ollama asks for gpu: cuda, and there is an NVIDIA card without a driv")
    assert "mokutil --import" in line
    assert line.endswith("or write gpu: auto")
    assert violations(services, facts(nvidia_card=True, nvidia_tool=True), [], True) == []
    (line,) = warnings({"ollama": service(gpu="auto")}, facts(), locked_out=True)
    assert "Secure Boot is on" in line
    assert line.endswith("gpu: auto takes the processor")


@pytest.mark.parametrize(
    ("gpu", "more"),
    [
        ("cuda", {"nvidia_card": True, "nvidia_tool": True}),
        ("vulkan", {"render_nodes": (CARD,)}),
        ("auto", {}),
        ("software", {}),
    ],
)
def test_a_gpu_that_is_present_or_not_needed_is_accepted(gpu: str, more: dict[str, Any]) -> None:
    assert violations({"ollama": service(gpu=gpu)}, facts(**more), []) == []


def test_all_violations_are_reported_at_once() -> None:
    found = violations(
        {"ollama": service(gpu="vulkan")},
        facts(debian="not Debian", disk_free_bytes=0),
        [Listener("tcp", "*", 443, "apache2.service")],
    )
    assert len(found) == 4
    assert all("\n" not in line for line in found)


def test_what_podman_does_not_have_is_told_before(monkeypatch: pytest.MonkeyPatch) -> None:
    card = facts(nvidia_card=True, nvidia_tool=True)
    wants = {"kokoro": service(name="kokoro", runtime="podman", gpu="cuda")}
    monkeypatch.setattr("hearth.machine.preflight._CDI_TOOL", Path("/bin/none"))
    (missing,) = violations(wants, card)
    assert missing.startswith("kokoro runs in Podman on an NVIDIA card, and nvidia-ctk")
    monkeypatch.setattr("hearth.machine.preflight._CDI_TOOL", Path("/bin/true"))
    assert violations(wants, card) == []
