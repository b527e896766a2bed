"""A record becomes its instance: limits, link, card, volumes; nothing it must not have."""

from __future__ import annotations

import pytest

from hearth.machine.images import IMAGE_KEY
from hearth.machine.instances import OWNER_KEY, describe
from tests.unit.machine.samples import RECIPE, VOLUME, service, wanted


def test_a_record_becomes_config_and_devices() -> None:
    item = wanted(limits={"memory": "60%", "cpus": 2, "tasks": 512})
    assert item.name == "open-webui"
    assert item.config == {
        OWNER_KEY: "1",
        IMAGE_KEY: RECIPE.alias,
        "boot.autostart": "true",
        "boot.autorestart": "true",
        "boot.autostart.priority": "97",
        "security.idmap.isolated": "true",
        "security.guestapi": "false",
        "limits.memory": "60%",
        "limits.cpu": "2",
        "limits.processes": "512",
    }
    unsaid = wanted().config
    assert (unsaid["limits.memory"], unsaid["limits.processes"]) == ("80%", "4096")
    assert "limits.cpu" not in unsaid
    assert item.devices["eth0"] == {
        "type": "nic",
        "nictype": "routed",
        "ipv4.address": "10.140.30.14",
        "host_name": "to-open-webui",
    }
    assert item.devices["data0"] == {
        "type": "disk",
        "path": "/var/lib/open-webui",
        "source": "open-webui-data",
        "pool": "hearth",
    }
    assert item.volumes == ("open-webui-data",)
    assert item.devices["program-open_webui"] == {
        "type": "disk",
        "path": "/opt/hearth/open_webui",
        "source": "/var/lib/hearth/programs/open_webui",
        "readonly": "true",
    }


def test_a_folder_of_the_machine_is_mounted_and_is_not_a_volume() -> None:
    folder = {**VOLUME, "from_folder": "/srv/models"}
    item = describe(service(volumes=[folder]), RECIPE, (), "none")
    assert item.volumes == ()
    assert item.devices["data0"] == {
        "type": "disk",
        "path": "/var/lib/open-webui",
        "source": "/srv/models",
        "shift": "true",
    }


def test_an_instance_is_not_privileged_and_nests_nothing() -> None:
    for accelerator in ("none", "cuda", "vulkan", "software"):
        config = wanted(accelerator).config
        assert not [key for key in config if key in ("security.privileged", "security.nesting")]


@pytest.mark.parametrize("accelerator", ["none", "software"])
def test_without_a_card_no_device_is_passed(accelerator: str) -> None:
    item = wanted(accelerator)
    assert set(item.devices) == {"root", "eth0", "program-open_webui", "data0"}
    assert "nvidia.runtime" not in item.config


def test_vulkan_passes_the_render_node_and_waits_for_no_card() -> None:
    assert wanted("vulkan").devices["render0"] == {
        "type": "unix-char",
        "source": "/dev/dri/renderD128",
        "required": "false",
        "gid": "900",
        "mode": "0660",
    }


def test_cuda_passes_the_card_and_its_libraries() -> None:
    item = wanted("cuda")
    assert item.devices["gpu"] == {"type": "gpu", "gputype": "physical"}
    assert item.config["nvidia.runtime"] == "true"
