"""The data of a service in Podman are part of a backup, by a container beside the service's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hearth.backup import BackupError, agent
from hearth.backup.agent import data_folders
from hearth.catalogue.house import House
from hearth.machine import podman
from hearth.project import Project
from hearth.render import quadlets

ROOT = Path(__file__).parents[3]
IMAGE = f"sha256:{'1' * 64}"
VOLUME = "hearth-open-webui-var-lib-open-webui"
# Stands for Podman: knows one volume; otherwise it prints its arguments, and then its input.
PODMAN = f"""#!/bin/sh
[ "$3 $4" != "volume ls" ] || exec echo {VOLUME}
printf "%s\\n" "$@"
exec cat
"""


@pytest.fixture
def house(tmp_path: Path) -> House:
    (local := tmp_path / "inventory/local").mkdir(parents=True)
    for path in (ROOT / "inventory").glob("*.yml"):
        (tmp_path / "inventory" / path.name).write_bytes(path.read_bytes())
    (local / "services.yml").write_text("services: {open_webui: {runtime: podman}}\n")
    return Project(tmp_path).house()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with the container's quadlet, and a program in Podman's place."""
    program = tmp_path / "podman"
    program.write_text(PODMAN)
    program.chmod(0o755)
    monkeypatch.setattr(podman, "PROGRAM", str(program))
    monkeypatch.setattr(quadlets, "QUADLETS", str(tmp_path))
    (tmp_path / "hearth-open-webui.container.d").mkdir()
    return tmp_path


def test_every_service_with_data_is_in_a_backup(house: House) -> None:
    found = {one.service: one for one in data_folders(house)}
    assert {*found} == {"agents", "open_webui"}
    assert found["agents"].first_id is None
    mine = found["open_webui"]
    assert mine.first_id == quadlets.first_id(house.services["open_webui"])
    assert mine.volume_name == VOLUME
    assert mine.unit == "hearth-open-webui.service"


def test_its_program_runs_beside_the_service_with_its_image_and_ids(
    house: House, machine: Path
) -> None:
    drop_in = machine / "hearth-open-webui.container.d/image.conf"
    drop_in.write_text(f"# Written by Hearth.\n\n[Container]\nImage={IMAGE}\n")
    mine = next(one for one in data_folders(house) if one.service == "open_webui")
    with mine.run(["/usr/bin/python3", "-c", "pass"]) as child:
        child.write(b"the input")
        child.close()
        text = b""
        while piece := child.read():
            text += piece
        child.wait()
    words = text.decode().splitlines()
    assert words[-4:] == ["/usr/bin/python3", "-c", "pass", "the input"]
    assert words[-5] == IMAGE
    assert {"run", "--rm", "--interactive", "--network=none", "--log-driver=none"} <= {*words}
    assert f"--volume={VOLUME}:/var/lib/open-webui" in words
    assert f"--uidmap=0:{mine.first_id}:65536" in words


def test_without_its_image_the_error_names_what_to_run(house: House, machine: Path) -> None:
    mine = next(one for one in data_folders(house) if one.service == "open_webui")
    with (
        pytest.raises(podman.PodmanError, match="names no image: run `hearth up` first"),
        mine.run(["/usr/bin/python3"]),
    ):
        pass


def test_a_volume_that_is_gone_is_no_empty_backup(house: House, machine: Path) -> None:
    mine = next(one for one in data_folders(house) if one.service == "open_webui")
    with (
        pytest.raises(BackupError, match="Podman has no volume another: run `hearth up` first"),
        replace(mine, volume_name="another").run(["/usr/bin/python3"]),
    ):
        pass


def test_a_program_that_is_left_early_is_ended() -> None:
    with agent.started_here("sleeper", ["/bin/sh", "-c", "echo here; exec sleep 600"]) as child:
        assert child.read(4) == b"here"
    assert child._ended == [{"metadata": {"return": -15}}]
