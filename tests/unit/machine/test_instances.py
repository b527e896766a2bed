"""Instances follow their records, keep their data, and leave other instances alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pylxd import Client

from hearth.machine import engine, instances
from hearth.machine.images import Recipe
from hearth.machine.instances import NESTED_KEY, OWNER_KEY, Instance, InstanceError, describe
from tests.unit.machine.fake_incus import FakeIncus, execute
from tests.unit.machine.samples import RECIPE, VOLUME, service, wanted


@pytest.fixture
def incus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeIncus:
    monkeypatch.setattr(instances, "PROGRAMS", tmp_path / "programs")
    monkeypatch.setattr(instances, "READY_LIMIT_S", 0)
    monkeypatch.setattr(engine, "run_inside", execute)
    fake = FakeIncus()
    instances.ensure_pool(cast(Client, fake), write=True)
    fake.did.clear()
    return fake


def ensure(incus: FakeIncus, item: Instance, write: bool = True) -> list[str]:
    return instances.ensure(cast(Client, incus), item, write)


def test_the_first_run_makes_everything_and_the_second_nothing(incus: FakeIncus) -> None:
    assert ensure(incus, wanted()) == [
        "volume open-webui-data",
        f"create open-webui from {RECIPE.alias}",
        "start open-webui",
    ]
    assert incus.did == [
        "create volume open-webui-data",
        "create open-webui",
        "start open-webui",
        "patch open-webui",
    ]
    incus.did.clear()
    assert ensure(incus, wanted()) == []
    assert incus.did == []


def test_an_instance_that_a_killed_run_left_unfinished_is_rebuilt(incus: FakeIncus) -> None:
    incus.system_state = "starting"
    with pytest.raises(InstanceError):
        ensure(incus, wanted())
    incus.system_state = "running"
    incus.did.clear()
    # It runs, but no unit has been tried with a secret there.
    assert ensure(incus, wanted())[0] == f"rebuild open-webui from {RECIPE.alias}"
    assert incus.did[:2] == ["delete open-webui", "create open-webui"]
    assert ensure(incus, wanted()) == []


@pytest.mark.parametrize("code", [0, 1])
def test_the_exit_code_of_the_probe_counts_though_its_output_was_lost(
    monkeypatch: pytest.MonkeyPatch, incus: FakeIncus, code: int
) -> None:
    def lossy(client: Any, instance: str, argv: Any, **more: Any) -> engine.Output:
        if argv == instances.PROBE:
            raise engine.OutputLost("stream 2 of a command broke off", code)
        return execute(client, instance, argv, **more)

    monkeypatch.setattr(engine, "run_inside", lossy)
    if code:
        with pytest.raises(InstanceError, match="cannot pass secrets"):
            ensure(incus, wanted())
    else:
        assert ensure(incus, wanted())[-1] == "start open-webui"


def test_what_incus_is_still_at_is_waited_for() -> None:
    def operation(kind: str) -> dict[str, str]:
        return {"class": kind, "description": "Creating instance"}

    answers = [
        {"running": [operation("websocket"), operation("task")]},
        {"running": [operation("websocket")]},
        {},
    ]

    def get(params: dict[str, str]) -> Any:
        assert params == {"recursion": "1"}
        answer = answers.pop(0)
        return SimpleNamespace(json=lambda: {"metadata": answer})

    api = SimpleNamespace(operations=SimpleNamespace(get=get))
    instances.settle(cast(Client, SimpleNamespace(api=api)))
    assert len(answers) == 1


def test_check_mode_reports_the_same_and_does_nothing(incus: FakeIncus) -> None:
    assert ensure(incus, wanted(), write=False) == [
        "volume open-webui-data",
        f"create open-webui from {RECIPE.alias}",
    ]
    ensure(incus, wanted())
    incus.did.clear()
    other = wanted(limits={"cpus": 4})
    assert ensure(incus, other, write=False) == ["open-webui: limits.cpu"]
    assert incus.did == []


def test_another_recipe_makes_a_new_system_and_keeps_the_data(incus: FakeIncus) -> None:
    ensure(incus, wanted())
    incus.did.clear()
    newer = Recipe("debian/13", ("python3", "curl"), "10.140.30.1", "")
    item = describe(service(volumes=[VOLUME]), newer, (), "none")
    assert ensure(incus, item) == [f"rebuild open-webui from {newer.alias}", "start open-webui"]
    assert incus.did == [
        "delete open-webui",
        "create open-webui",
        "start open-webui",
        "patch open-webui",
    ]
    assert list(incus.pools["hearth"]) == ["open-webui-data"]


def test_changes_are_named_and_what_incus_added_stays(incus: FakeIncus) -> None:
    ensure(incus, wanted(limits={"tasks": 99}))
    incus.did.clear()
    assert ensure(incus, wanted("vulkan", limits={"cpus": 4})) == [
        "open-webui: limits.cpu",
        "open-webui: limits.processes",
        "open-webui: device render0",
    ]
    found = incus.made["open-webui"]
    assert found.config["volatile.uuid"] == "1"
    assert found.config["limits.processes"] == "4096"
    assert incus.did == ["save open-webui"]


def test_a_new_address_is_there_after_a_start(incus: FakeIncus) -> None:
    ensure(incus, wanted())
    incus.did.clear()
    instances.stop_those_with_new_links(cast(Client, incus), [wanted()])
    assert incus.made["open-webui"].status_code == instances.RUNNING_CODE
    instances.stop_those_with_new_links(cast(Client, incus), [wanted(address="10.140.30.18")])
    assert ensure(incus, wanted(address="10.140.30.18")) == [
        "open-webui: device eth0",
        "start open-webui",
    ]
    assert incus.did == ["save open-webui", "start open-webui"]
    assert incus.made["open-webui"].devices["eth0"]["ipv4.address"] == "10.140.30.18"


def test_a_profile_that_somebody_added_goes(incus: FakeIncus) -> None:
    ensure(incus, wanted())
    found = incus.made["open-webui"]
    found.profiles.append("default")
    assert ensure(incus, wanted(), write=False) == ["open-webui: profiles"]
    assert found.profiles == ["default"]
    assert ensure(incus, wanted()) == ["open-webui: profiles"]
    assert found.profiles == []
    assert ensure(incus, wanted()) == []


def test_nesting_that_somebody_set_goes(incus: FakeIncus) -> None:
    ensure(incus, wanted())
    found = incus.made["open-webui"]
    found.config["security.nesting"] = "true"
    assert ensure(incus, wanted()) == ["open-webui: security.nesting"]
    assert "security.nesting" not in found.config


def test_an_older_instance_loses_the_folder_of_all_programs(incus: FakeIncus) -> None:
    ensure(incus, wanted())
    found = incus.made["open-webui"]
    own = found.devices.pop("program-open_webui")
    programs = str(Path(own["source"]).parent)
    found.devices["programs"] = {"type": "disk", "path": "/opt/hearth", "source": programs}
    incus.did.clear()
    assert ensure(incus, wanted()) == [
        "open-webui: device program-open_webui",
        "open-webui: device programs",
    ]
    # Programs keep running: both folders have the same paths in them.
    assert incus.did == ["save open-webui"]
    assert found.devices["program-open_webui"] == own
    assert "programs" not in found.devices
    assert ensure(incus, wanted()) == []


def test_folders_of_programs_exist_before_they_are_mounted(incus: FakeIncus) -> None:
    item = wanted(programs=["open_webui", "open_webui_more"])
    ensure(incus, item, write=False)
    assert not any(path.exists() for path in item.programs)
    ensure(incus, item)
    assert [path.name for path in item.programs] == ["open_webui", "open_webui_more"]
    assert all(path.is_dir() for path in item.programs)


def test_a_running_instance_is_restarted_when_a_mounted_folder_was_deleted(
    incus: FakeIncus,
) -> None:
    ensure(incus, wanted())
    (folder,) = wanted().programs
    folder.rmdir()
    incus.did.clear()
    expected = [f"restart open-webui, since {folder} was missing"]
    assert ensure(incus, wanted(), write=False) == expected
    assert incus.did == []
    assert not folder.exists()
    assert ensure(incus, wanted()) == expected
    assert incus.did == ["restart open-webui"]
    assert folder.is_dir()
    assert ensure(incus, wanted()) == []


def test_a_stopped_instance_is_started(incus: FakeIncus) -> None:
    ensure(incus, wanted())
    incus.made["open-webui"].stop(force=True, wait=True)
    assert ensure(incus, wanted()) == ["start open-webui"]


def test_somebody_elses_instance_is_refused_and_left_alone(incus: FakeIncus) -> None:
    ensure(incus, wanted())
    incus.made["open-webui"].config.pop(OWNER_KEY)
    incus.did.clear()
    with pytest.raises(InstanceError) as caught:
        ensure(incus, wanted())
    assert str(caught.value) == (
        "Incus already has an instance open-webui that Hearth did not make; rename it "
        "(incus rename open-webui NEW) or rename the service"
    )
    assert incus.did == []


def test_an_error_of_incus_is_quoted(incus: FakeIncus) -> None:
    incus.refusal = "Failed to detect requested GPU device"
    with pytest.raises(InstanceError) as caught:
        ensure(incus, wanted("cuda"))
    assert str(caught.value) == (
        "instance open-webui was not created: Failed to detect requested GPU device"
    )
    incus.refusal = ""
    ensure(incus, wanted())
    incus.refusal = "Invalid limit"
    with pytest.raises(InstanceError) as caught:
        ensure(incus, wanted(limits={"cpus": 4}))
    assert str(caught.value) == "instance open-webui was not changed: Invalid limit"


def test_an_instance_that_does_not_start_is_reported(incus: FakeIncus) -> None:
    incus.system_state = "starting"
    with pytest.raises(InstanceError) as caught:
        ensure(incus, wanted())
    assert str(caught.value) == (
        "instance open-webui did not start in 0 s: look with `incus console open-webui --show-log`"
    )


def test_a_machine_whose_apparmor_forbids_credentials_gets_nesting_once(incus: FakeIncus) -> None:
    incus.forbids_credentials = "flat"
    assert ensure(incus, wanted())[-1] == (
        "open-webui: security.nesting, since this machine's AppArmor forbids credentials"
    )
    assert ensure(incus, wanted()) == []
    config = incus.made["open-webui"].config
    assert config.pop("security.nesting") == "true"
    # Hearth has noted that it was itself, and why is still true.
    assert ensure(incus, wanted()) == ["open-webui: security.nesting"]
    assert incus.made["open-webui"].config["security.nesting"] == "true"
    # Where the note is lost, the machine is queried again.
    incus.made["open-webui"].config.pop(NESTED_KEY)
    assert len(ensure(incus, wanted())) == 2
    assert incus.made["open-webui"].config["security.nesting"] == "true"
    assert ensure(incus, wanted()) == []


def test_a_machine_that_forbids_them_all_the_same_is_refused(incus: FakeIncus) -> None:
    incus.forbids_credentials = "always"
    with pytest.raises(InstanceError) as caught:
        ensure(incus, wanted())
    assert str(caught.value) == (
        "instance open-webui cannot pass secrets to a hardened unit (no credential); look for "
        "AppArmor's denial in `journalctl -k`"
    )


def test_removing_keeps_the_volume_and_takes_a_stopped_one(incus: FakeIncus) -> None:
    ensure(incus, wanted())
    found = incus.made["open-webui"]
    found.stop(force=True, wait=True)
    instances.remove(found)
    assert incus.made == {}
    assert list(incus.pools["hearth"]) == ["open-webui-data"]
    assert instances.find(cast(Client, incus), "open-webui") is None
    assert not instances.is_running(cast(Client, incus), "open-webui")


def test_the_pool_is_made_once() -> None:
    fake = FakeIncus()
    client = cast(Client, fake)
    assert instances.ensure_pool(client, write=False) == ["storage pool hearth"]
    assert instances.ensure_volumes(client, wanted(), write=False) == ["volume open-webui-data"]
    assert instances.ensure_pool(client, write=True) == ["storage pool hearth"]
    assert instances.ensure_pool(client, write=True) == []
    assert fake.did == ["create pool hearth"]
