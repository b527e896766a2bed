"""The rendered compose files let pass what the catalogue needs, and nothing else."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth.catalogue import derive, load
from hearth.catalogue.house import House
from hearth.catalogue.records import FILES
from hearth.render.containers import caller, contained, reached_at

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "compose"
ALWAYS = {
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "pull_policy": "never",
}


def inventory(folder: Path) -> Path:
    """The inventory as committed, without the user's own settings."""
    for name in FILES:
        shutil.copy(ROOT / f"inventory/{name}.yml", folder)
    return folder


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    # Without keys of clouds, as the files are rendered.
    return contained(derive(load(inventory(tmp_path_factory.mktemp("inventory")))))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((FOLDER / "compose.yml").read_text()))


def laid(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((FOLDER / f"{name}.yml").read_text())["services"])


def test_every_container_is_confined(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert {key: service.get(key) for key in ALWAYS} == ALWAYS, name
        if name != "init":
            assert service["user"] == "900:900", name
            assert "cap_add" not in service, name
    assert compose["services"]["init"]["cap_add"] == ["CHOWN", "DAC_OVERRIDE"]
    assert compose["services"]["init"]["network_mode"] == "none"


def test_two_containers_share_a_network_only_where_one_needs_the_other(
    compose: dict[str, Any], house: House
) -> None:
    instances = {name: s.instance for name, s in house.services.items()}
    allowed = {(instances[f.source], instances[f.target]) for f in house.flows}
    allowed |= {("caddy", s.instance) for s in house.services.values() if s.sites}
    members: dict[str, list[str]] = {}
    for name, service in compose["services"].items():
        for net in service.get("networks", {}):
            members.setdefault(net, []).append(name)
    for net, names in members.items():
        if net.endswith("-inside"):
            assert all(name.startswith(net.removesuffix("-inside")) for name in names)
            continue
        pairs = {(a, b) for a in names for b in names if a != b}
        assert all(pair in allowed or pair[::-1] in allowed for pair in pairs), (net, names)
    for source, target in allowed:
        nets = [compose["services"].get(one, {}).get("networks", {}) for one in (source, target)]
        # A card's service is in another file.
        assert not all(nets) or set(nets[0]) & set(nets[1]), (source, target)


def test_only_egress_the_pages_and_the_resolver_have_a_way_out(
    compose: dict[str, Any], house: House
) -> None:
    open_nets = {
        net for net, given in compose["networks"].items() if not (given or {}).get("internal")
    }
    egress = {f"{house.services[e.source].instance}-egress" for e in house.egress}
    assert open_nets == {"lan", "dns"} | egress
    for name, service in compose["services"].items():
        outward = open_nets & set(service.get("networks", {}))
        assert len(outward) <= 1, name
        if outward & egress:
            assert service["networks"].keys() & {"lan"} == set()


def test_one_pair_of_ports_is_published(compose: dict[str, Any]) -> None:
    ports = {n: s["ports"] for n, s in compose["services"].items() if "ports" in s}
    assert {*ports} == {"caddy", "dnsmasq"}
    assert [port.rpartition(":")[2] for port in ports["caddy"]] == ["443", "80"]
    assert compose["services"]["dnsmasq"]["profiles"] == ["dns"]


def test_each_starts_after_what_it_needs_is_healthy(compose: dict[str, Any], house: House) -> None:
    for service in house.services.values():
        name = caller(service) if service.paths else service.instance
        if name in compose["services"]:
            before = compose["services"][name].get("depends_on", {})
            for need in service.needs:
                wanted = {"condition": "service_healthy"}
                assert before[house.services[need].instance] == wanted, name
    for name, service in compose["services"].items():
        if any("-credentials:/run" in mount for mount in service.get("volumes", ())):
            wanted = {"condition": "service_completed_successfully"}
            assert service["depends_on"]["init"] == wanted, name


def test_every_volume_and_network_that_is_named_is_declared(compose: dict[str, Any]) -> None:
    for laid_over in ({}, laid("cuda"), laid("vulkan")):
        for service in [*compose["services"].values(), *laid_over.values()]:
            nets = service.get("networks", {})
            assert {*nets} <= {*compose["networks"]}
            for mount in service.get("volumes", ()):
                source = mount.partition(":")[0]
                if source[0] not in "./$":
                    assert source in compose["volumes"], mount
                if source.startswith("./"):
                    assert (FOLDER / source).is_file(), mount


def test_the_machine_reaches_containers_at_their_own_addresses(house: House) -> None:
    reached = reached_at(house, {"whisper": "10.0.0.5", "ollama-program": "10.0.0.6"})
    whisper, ollama = reached.services["whisper"], reached.services["ollama"]
    # Other ports, such as that of satellites, are there as well.
    assert (whisper.address, whisper.url) == ("10.0.0.5", "http://10.0.0.5:8000")
    assert ollama.url == "http://10.0.0.6:11434"
    assert {m.url for m in reached.models.values() if m.service == "ollama"} == {ollama.url}
    # One that does not run keeps its name.
    assert reached.services["kokoro"].url == "http://kokoro:8880"


def test_another_mounted_file_makes_another_container(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        mounts = [m.split(":") for m in service.get("volumes", ()) if m.startswith("./")]
        if mounts and name != "init":
            files = {inside: (FOLDER / source).read_text() for source, inside, _ in mounts}
            digest = sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
            assert service["labels"] == {"io.hearth.files": digest[:12]}, name


def test_programs_that_measure_the_machine_may_be_late(compose: dict[str, Any]) -> None:
    periods = {
        n: s["healthcheck"].get("start_period")
        for n, s in compose["services"].items()
        if "healthcheck" in s
    }
    assert {n for n, period in periods.items() if period == "900s"} == {"kokoro", "whisper"}


def test_each_secret_that_a_container_reads_is_made(compose: dict[str, Any]) -> None:
    config = json.loads((FOLDER / "config/init/init.json").read_text())
    made = {*config["secrets"], "house_intermediate_key"}
    for owner, wanted in config["credentials"].items():
        for value in wanted["values"].values():
            names = {value} if isinstance(value, str) else {*value.values()}
            assert names <= made, owner
        mounts = " ".join(compose["services"]["init"]["volumes"])
        assert f"{owner}-credentials:/var/lib/hearth/credentials/{owner}" in mounts


def test_no_image_has_a_moving_tag(compose: dict[str, Any]) -> None:
    for service in [*compose["services"].values(), *laid("cuda").values()]:
        if "image" in service:
            name, _, tag = service["image"].partition(":")
            assert name.startswith("hearth-")
            assert len(tag) == 12, service["image"]


def test_health_checks_are_one_line_of_shell(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        if "healthcheck" in service:
            kind, *lines = service["healthcheck"]["test"]
            if name in ("dnsmasq", "ollama-models"):
                assert kind == "NONE", name
                continue
            assert kind == "CMD-SHELL", name
            [line] = lines
            assert line.startswith("/usr/local/bin/hearth-healthy http://"), name


def test_a_card_changes_only_what_uses_it() -> None:
    assert {*laid("cuda")} == {"kokoro-gpu", "whisper", "ollama-program"}
    assert {*laid("vulkan")} == {"ollama-program"}
    devices = laid("cuda")["whisper"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices[0]["driver"] == "cdi"
    assert laid("cuda-podman")["whisper"]["devices"] == ["nvidia.com/gpu=all"]
