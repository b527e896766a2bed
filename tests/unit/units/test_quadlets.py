"""A program's start data as Podman's quadlets."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from hearth.catalogue.house import Service
from hearth.render.programs import Program
from hearth.render.quadlets import FILES, QUADLETS, VOLUMES, Given, first_id, on_machine
from hearth.render.units import UnitError
from tests.unit.machine.samples import VOLUME, service

GIVEN = Given("10.140.30.1", image="sha256:abc")
HEALTH = {
    "url": "http://10.140.30.14:8880/health",
    "contains": "it's ok",
    "within_s": 2,
    "ready_s": 90,
}


def contained(**more: Any) -> Service:
    fields: dict[str, Any] = {
        "runtime": "podman",
        "name": "open_webui",
        "unit": "hearth-open-webui.service",
        "volumes": [VOLUME],
    }
    return service(**fields | more)


def program(**more: Any) -> Program:
    run = {
        "summary": "A page",
        "user": "web",
        "module": "web",
        "import_from": ["/opt/hearth/open_webui/current"],
        "arguments": ["--at", "50 %", "$HOME"],
        "environment": {"HOME": "/var/lib/open-webui"},
        "writable": ["/var/lib/open-webui", "/var/cache/web"],
        "runtime_folder": "web",
    }
    fields: dict[str, Any] = {
        "run": run | more.pop("run", {}),
        "user": "web",
        "folders": [
            {"path": "/var/lib/open-webui/sub", "owner": "web", "mode": "0750"},
            {"path": "/etc/web", "mode": "0755"},
        ],
        "files": [
            {"path": "/etc/web/a.json", "content": "{}", "check": ["/usr/bin/check", "-f=%s"]}
        ],
        "credentials": {"key": "web_key"},
        "health": HEALTH,
    }
    return Program("open-webui", **fields | more)


def files(programs: list[Program]) -> dict[str, Mapping[str, Any]]:
    return {file["path"]: file for program in programs for file in program.files}


def keys(text: str, key: str) -> list[str]:
    lines = (line for line in text.splitlines() if line.startswith(f"{key}="))
    return [line.partition("=")[2] for line in lines]


def container(made: list[Program], name: str = "hearth-open-webui") -> str:
    return str(files(made)[f"{QUADLETS}/{name}.container"]["content"])


def test_a_container_is_alone_in_a_network_of_its_own() -> None:
    made = on_machine(contained(), [program()], GIVEN)
    network = str(files(made)[f"{QUADLETS}/hearth-open-webui.network"]["content"])
    assert keys(network, "Subnet") == ["10.140.30.12/30"]
    assert keys(network, "Gateway") == ["10.140.30.13"]
    assert "--interface-name=to-open-webui" in network
    text = container(made)
    assert keys(text, "Network") == ["hearth-open-webui.network"]
    assert keys(text, "IP") == ["10.140.30.14"]
    assert keys(text, "DNS") == ["10.140.30.1"]


def test_a_container_is_confined() -> None:
    text = container(on_machine(contained(), [program()], GIVEN))
    for line in (
        "NoNewPrivileges=true",
        "DropCapability=all",
        "ReadOnly=true",
        "PodmanArgs=--http-proxy=false",
    ):
        assert line in text.splitlines()
    assert keys(text, "User") == ["900"]
    first = first_id(contained())
    assert keys(text, "UIDMap") == keys(text, "GIDMap") == [f"0:{first}:65536"]


def test_containers_share_no_users() -> None:
    addresses = [f"10.140.{third}.{4 * n + 2}" for third in (30, 31) for n in range(64)]
    firsts = sorted(first_id(contained(address=address)) for address in addresses)
    assert all(b - a >= 65536 for a, b in itertools.pairwise(firsts))
    # Above what systemd gives to containers, and below what it keeps for others.
    assert firsts[0] > 0x6FFF_FFFF
    assert firsts[-1] + 65536 <= 0x7FFF_0000 + 65536


def test_words_reach_the_program_as_they_are() -> None:
    text = container(on_machine(contained(), [program()], GIVEN))
    # systemd expands both in a command line.
    assert keys(text, "Exec") == ['/usr/bin/python3 -P -m web --at "50 %%" $$HOME']


def test_files_are_on_the_machine_and_mounted_where_the_role_wants_them() -> None:
    made = on_machine(contained(), [program()], GIVEN)
    file = files(made)[f"{FILES}/open-webui/etc/web/a.json"]
    assert file["owner"] == "0"
    assert f"Volume={FILES}/open-webui/etc/web:/etc/web:ro" in container(made).splitlines()
    # Its checker is in the image.
    assert file["check"][:2] == ["/usr/bin/podman", "run"]
    assert file["check"][-3:] == ["sha256:abc", "/usr/bin/check", "-f=/etc/web/.a.json.new"]


def test_data_are_in_volumes_that_belong_to_the_user_inside() -> None:
    made = on_machine(contained(), [program()], GIVEN)
    text = container(made)
    data, cache = "hearth-open-webui-var-lib-open-webui", "hearth-open-webui-var-cache-web"
    assert f"Volume={data}.volume:/var/lib/open-webui" in text
    assert f"Volume={cache}.volume:/var/cache/web" in text
    owner = str(first_id(contained()) + 900)
    folder = {"path": f"{VOLUMES}/{data}/_data/sub", "owner": owner, "group": owner, "mode": "0750"}
    # With all in it: another address means other ids.
    assert folder | {"whole": True} in made[-1].folders
    # What the role wanted for its files is mounted read-only.
    assert not any("etc/web" in item["path"] for item in made[-1].folders)


def test_a_folder_of_the_machine_keeps_its_owners() -> None:
    given = VOLUME | {"from_folder": "/srv/web"}
    made = on_machine(contained(volumes=[given]), [program()], GIVEN)
    assert "Volume=/srv/web:/var/lib/open-webui:idmap" in container(made).splitlines()
    (folder,) = (item for item in made[-1].folders if item["path"] == "/srv/web/sub")
    assert folder["owner"] == "900"


def test_credentials_become_podmans_secrets_at_each_start() -> None:
    text = container(on_machine(contained(), [program()], GIVEN))
    (made,) = keys(text, "ExecStartPre")
    assert made.endswith("hearth-open-webui.key /etc/hearth/credentials/hearth-open-webui/key")
    inside = "/run/credentials/open-webui.service"
    assert f"Environment=CREDENTIALS_DIRECTORY={inside}" in text
    (secret,) = keys(text, "Secret")
    assert secret == f"hearth-open-webui.key,target={inside}/key,uid=900,gid=900,mode=0400"


def test_its_unit_is_started_once_it_is_healthy() -> None:
    made = on_machine(contained(), [program()], GIVEN)
    assert keys(container(made), "Notify") == ["healthy"]
    assert keys(container(made), "TimeoutStartSec") == ["450"]
    look = str(files(made)[f"{FILES}/open-webui/etc/hearth-container/healthy"]["content"])
    assert "/dev/tcp/10.140.30.14/8880" in look
    assert """'it'"'"'s ok'""" in look


def test_the_image_is_named_by_its_digest_beside_the_quadlet() -> None:
    made = files(on_machine(contained(), [program()], GIVEN))
    drop_in = made[f"{QUADLETS}/hearth-open-webui.container.d/image.conf"]["content"]
    assert keys(str(drop_in), "Image") == ["sha256:abc"]
    unknown = files(on_machine(contained(), [program()], Given("10.140.30.1")))
    assert not any("image.conf" in path for path in unknown)


def test_limits_are_those_of_the_unit() -> None:
    limits = {"memory": "2GiB", "cpus": 1.5, "tasks": 64}
    text = container(on_machine(contained(limits=limits), [program()], GIVEN))
    assert keys(text, "MemoryMax") == [str(2 << 30)]
    assert keys(text, "CPUQuota") == ["150%"]
    assert keys(text, "TasksMax") == ["64"]
    plain = container(on_machine(contained(), [program()], GIVEN))
    assert keys(plain, "MemoryMax") == ["80%"]


def test_a_helper_is_in_the_network_of_its_service() -> None:
    helper = Program("open-webui-pull", {**program().run, "after": ["open-webui.service"]}, user="")
    made = on_machine(contained(), [program(), helper], GIVEN)
    text = container(made, "hearth-open-webui-pull")
    assert keys(text, "Network") == ["hearth-open-webui.container"]
    assert not keys(text, "IP")
    assert "hearth-open-webui.service" in keys(text, "After")[0].split()


def test_cards_come_with_the_group_that_may_open_them() -> None:
    nodes = Given("10.140.30.1", "i", "vulkan", ("/dev/dri/renderD128",), render_gid=105)
    text = container(on_machine(contained(), [program()], nodes))
    assert keys(text, "AddDevice") == ["/dev/dri/renderD128"]
    assert "GIDMap=65536:105:1" in text
    assert keys(text, "GroupAdd") == ["65536"]
    card = container(on_machine(contained(), [program()], Given("10.140.30.1", "i", "cuda")))
    assert keys(card, "AddDevice") == ["nvidia.com/gpu=all"]


def test_a_unit_of_debians_needs_an_instance() -> None:
    with pytest.raises(UnitError, match="open_webui: Debian's own units need an instance"):
        on_machine(contained(), [Program("open-webui")], GIVEN)
