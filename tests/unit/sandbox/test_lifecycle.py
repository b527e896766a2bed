"""A sandbox has nothing of the house that matters, there are few, and none outlives its time."""

import json
import os
import secrets
import time
from typing import Any

import pytest

from hearth.catalogue.house import Service
from hearth.machine import engine, outside
from hearth.machine.engine import EngineError
from hearth.machine.images import IMAGE_KEY
from hearth.machine.instances import OWNER_KEY
from hearth.sandbox import SandboxError, lifecycle
from hearth.sandbox.lifecycle import (
    MOST,
    create_sandbox,
    delete_sandbox,
    find_sandbox,
    list_sandboxes,
    stop_sandbox,
    sweep,
)
from tests.unit.machine.samples import service
from tests.unit.sandbox.conftest import DIGESTS, SECRET, UNIT, statvfs
from tests.unit.sandbox.fake_incus import Incus

DATA = {"name": "kokoro-data", "path": "/var/lib/kokoro", "copy": "none", "from_folder": None}
OWN = {"name": "", "path": "/srv", "copy": "none", "from_folder": "/srv/models"}
KEY = "user.hearth.sandbox"


def kokoro(**more: Any) -> Service:
    fields = {"name": "kokoro", "instance": "kokoro", "address": "10.140.30.18"}
    return service(**{**fields, "volumes": [DATA, OWN], **more})


def leftover(incus: Incus, name: str, **times: float) -> None:
    keys = {KEY: "kokoro", OWNER_KEY: "1"}
    incus.add(name, config=keys | {f"{KEY}.{key}": str(value) for key, value in times.items()})


def test_a_copy_has_no_network_no_card_no_data_and_programs_only_to_read(incus: Incus) -> None:
    made = incus.machines[create_sandbox(kokoro()).name]
    kinds = {name: device["type"] for name, device in made.devices.items()}
    assert kinds == {
        "root": "disk",
        "program-kokoro": "disk",
        **dict.fromkeys(("eth0", "gpu", "render0", "data0", "data1"), "none"),
    }
    assert made.devices["program-kokoro"]["readonly"] == "true"
    assert made.devices["root"]["size"] == str(4 << 30)
    assert made.config["nvidia.runtime"] == "false"


def test_a_copy_is_bounded_and_comes_back_after_no_restart(incus: Incus) -> None:
    made = incus.machines[create_sandbox(kokoro()).name].config
    wanted = {
        "boot.autostart": "false",
        "boot.autorestart": "false",
        "limits.memory": str(1 << 30),
        "limits.memory.swap": "false",
        "limits.processes": "512",
        "limits.kernel.nproc": "512",
        "security.idmap.isolated": "true",
        "security.guestapi": "false",
        "security.privileged": "false",
        # `hearth remove --all` removes it, and no image is kept for it.
        OWNER_KEY: "1",
        IMAGE_KEY: "",
    }
    assert {key: made[key] for key in wanted} == wanted


def test_secrets_journals_and_what_its_programs_wrote_are_gone_before_the_first_start(
    incus: Incus,
) -> None:
    name = create_sandbox(kokoro()).name
    files = incus.machines[name].files
    assert SECRET not in b"".join(files.values())
    assert [path for path, text in files.items() if text == b"what people said"] == []
    assert files["/var/lib/hidden/a.txt"] == b"what nobody said"
    assert files["/etc/systemd/system/kokoro.service"] == UNIT
    folder = "/etc/hearth/credentials/kokoro"
    # Of the same shape, so that its program starts.
    found = json.loads(files[f"{folder}/digests"])
    assert found.keys() == json.loads(DIGESTS).keys()
    assert not {*found.values()} & {*json.loads(DIGESTS).values()}
    assert len(files[f"{folder}/key"]) == 64
    assert files["/etc/hearth/kokoro.json"] == b"{}"
    did = enumerate(incus.did)
    touched = [index for index, line in did if line.startswith(("write /", "delete /"))]
    assert len(touched) == 7
    assert max(touched) < incus.did.index(f"start {name}")
    # The service itself keeps all of it.
    assert incus.machines["kokoro"].files[f"{folder}/key"] == SECRET


def test_its_program_finds_its_address_and_empty_folders_for_its_data(incus: Incus) -> None:
    made = create_sandbox(kokoro())
    ((name, *_, address, first, second),) = incus.ran
    assert (name, address, first, second) == (made.name, "10.140.30.18", "/var/lib/kokoro", "/srv")
    assert made.ready
    assert made.address == "10.140.30.18"
    assert find_sandbox(made.name) == made


def test_data_are_copied_only_when_asked_for_and_a_persons_folder_never(incus: Incus) -> None:
    create_sandbox(kokoro())
    assert [*incus.volumes] == ["kokoro-data"]
    name = create_sandbox(kokoro(), with_data=True).name
    assert f"copy kokoro-data to {name}-data0" in incus.did
    devices = incus.machines[name].devices
    assert devices["data0"]["source"] == f"{name}-data0"
    assert devices["data1"] == {"type": "none"}
    assert incus.ran[-1][-1] == "/srv"
    delete_sandbox(name)
    assert [*incus.volumes] == ["kokoro-data"]


def test_the_watcher_reads_its_name_from_its_processes(
    incus: Incus, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = iter(["01234567", "0123456a"])
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(tokens))
    monkeypatch.setattr(lifecycle, "_replace_secrets", lambda client, name: None)
    name = create_sandbox(kokoro()).name
    assert outside.instance_of(f"0::/lxc.payload.{name}/init.scope") == name


def test_an_empty_one_is_made_of_the_smallest_image(
    incus: Incus, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    create = incus.instances.create

    def noted(what: Any, wait: bool) -> None:
        given.append(what)
        create(what, wait)

    monkeypatch.setattr(incus.instances, "create", noted)
    made = create_sandbox(None)
    assert made.service == ""
    assert given[0]["source"] == {"type": "image", "alias": "hearth-debian-13-ba9876543210"}
    assert [*given[0]["devices"]] == ["root"]


def test_the_ninth_is_refused_and_one_less_makes_room(incus: Incus) -> None:
    made = [create_sandbox(kokoro()) for _ in range(MOST)]
    with pytest.raises(SandboxError, match="there are 8 sandboxes, which is the limit"):
        create_sandbox(kokoro())
    assert len(list_sandboxes()) == MOST
    delete_sandbox(made[3].name)
    create_sandbox(None)


@pytest.mark.parametrize(("second", "stays"), [("2026-11-24", True), ("2026-11-22", False)])
def test_of_two_made_at_the_same_time_only_the_older_is_the_eighth(
    incus: Incus, second: str, stays: bool
) -> None:
    now = time.time()
    times = {"made": now, "ready": now, "ends": now + 60}
    for number in range(MOST - 1):
        leftover(incus, f"sb-{number:08x}", **times)

    def rival() -> None:
        # After the first look of ours, and before its second one.
        leftover(incus, "sb-ffffffff", **times)
        incus.machines["sb-ffffffff"].created_at = f"{second}T00:00:00Z"

    incus.on_create.append(rival)
    if stays:
        create_sandbox(kokoro())
    else:
        with pytest.raises(SandboxError, match="limit"):
            create_sandbox(kokoro())
    assert len(list_sandboxes()) == MOST + stays


def test_a_creation_does_not_depend_on_output_that_incus_loses(incus: Incus) -> None:
    incus.loses_output = True
    made = create_sandbox(None)
    assert find_sandbox(made.name) == made


@pytest.mark.parametrize("loses_output", [False, True])
@pytest.mark.parametrize("fails", ["start", "run"])
def test_a_creation_that_fails_leaves_nothing(incus: Incus, fails: str, loses_output: bool) -> None:
    incus.refuses.add(fails)
    incus.loses_output = loses_output
    with pytest.raises(EngineError):
        create_sandbox(kokoro(), with_data=True)
    assert [*incus.machines] == ["kokoro"]
    assert [*incus.volumes] == ["kokoro-data"]


def test_a_machine_without_room_makes_none(incus: Incus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: statvfs(2 << 30))
    with pytest.raises(SandboxError, match=r"the disk has 2048 MiB free, and .* needs 3072 MiB"):
        create_sandbox(kokoro())
    monkeypatch.setattr(os, "statvfs", lambda path: statvfs(8 << 30))
    monkeypatch.setattr(lifecycle, "available_bytes", lambda: 1 << 30)
    with pytest.raises(SandboxError, match="1024 MiB of memory are free"):
        create_sandbox(kokoro())
    assert incus.did == []


def test_what_hearth_does_not_run_cannot_be_copied(incus: Incus) -> None:
    with pytest.raises(SandboxError, match="runs outside of this machine"):
        create_sandbox(kokoro(runtime="external"))
    with pytest.raises(SandboxError, match="run `hearth up`"):
        create_sandbox(kokoro(instance="whisper"))
    assert [*incus.machines] == ["kokoro"]


@pytest.mark.parametrize("name", ["kokoro", "sb-00000000", "sb-../../x", ""])
def test_nothing_but_a_sandbox_is_ever_found_or_deleted(incus: Incus, name: str) -> None:
    # Somebody's own instance with such a name.
    incus.add("sb-00000000", config={OWNER_KEY: "1"})
    with pytest.raises(SandboxError, match="no sandbox"):
        delete_sandbox(name)
    sweep(time.time() + 10**6)
    assert {*incus.machines} == {"kokoro", "sb-00000000"}


def test_a_consumer_finds_its_own_and_a_person_finds_all(incus: Incus) -> None:
    mine, theirs = create_sandbox(kokoro(), owner="team"), create_sandbox(kokoro(), with_data=True)
    assert find_sandbox(mine.name, owner="team") == mine
    with pytest.raises(SandboxError, match="no sandbox"):
        find_sandbox(theirs.name, owner="team")
    assert find_sandbox(mine.name) == mine


def test_the_sweep_deletes_what_is_over_and_what_a_killed_creation_left(incus: Incus) -> None:
    now = time.time()
    leftover(incus, "sb-00000001", made=now - 3700, ready=now - 3690, ends=now - 1)
    leftover(incus, "sb-00000002", made=now - 200, ends=now + 3000)
    leftover(incus, "sb-00000003", made=now - 20, ends=now + 3000)
    leftover(incus, "sb-00000004", made=now - 200, ready=now - 190, ends=now + 3000)
    leftover(incus, "sb-00000005")
    incus.add("sb-00000006", config={KEY: "kokoro", f"{KEY}.ends": "tomorrow"})
    for volume in ("sb-00000001-data0", "sb-00000004-data0", "sb-00000009-data1"):
        incus.volume(volume)
    assert sorted(sweep(now)) == [
        *("sb-00000001", "sb-00000002", "sb-00000005", "sb-00000006", "sb-00000009-data1"),
    ]
    assert {*incus.machines} == {"kokoro", "sb-00000003", "sb-00000004"}
    assert {*incus.volumes} == {"kokoro-data", "sb-00000004-data0"}


def test_one_that_cannot_be_deleted_keeps_no_other_one(incus: Incus) -> None:
    leftover(incus, "sb-00000001")
    leftover(incus, "sb-00000002")
    incus.volume("sb-00000003-data0")
    incus.volume("sb-00000004-data0")
    incus.refuses |= {"sb-00000001", "sb-00000003-data0"}
    assert sweep() == ["sb-00000002", "sb-00000004-data0"]
    incus.refuses.clear()
    assert sweep() == ["sb-00000001", "sb-00000003-data0"]


def test_one_that_was_stopped_says_why(incus: Incus) -> None:
    made = create_sandbox(kokoro())
    stop_sandbox(made.name, "it wrote too much")
    with pytest.raises(SandboxError, match=f"{made.name}: it wrote too much; create another one"):
        find_sandbox(made.name)
    delete_sandbox(made.name)


def test_copies_of_data_are_not_the_houses_own(incus: Incus) -> None:
    incus.volume("sb-00000001-data0")
    assert [*engine.data_volumes(incus)] == ["kokoro-data"]
    assert [*engine.sandbox_volumes(incus)] == ["sb-00000001-data0"]
