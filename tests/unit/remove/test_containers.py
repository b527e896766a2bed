"""What a service has in Podman goes with it, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hearth.machine import podman
from hearth.remove import containers
from hearth.render.quadlets import LABEL


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine with two of our containers and one of somebody else; the commands that were run."""
    quadlets = tmp_path / "systemd"
    quadlets.mkdir()
    for name in ("kokoro", "kokoro_gpu"):
        unit = f"hearth-{name.replace('_', '-')}"
        for suffix in (".container", ".network", "-var-lib-kokoro.volume"):
            (quadlets / f"{unit}{suffix}").write_text(f"[Container]\nLabel={LABEL}={name}\n")
    (quadlets / "hearth-kokoro.container.d").mkdir()
    (quadlets / "hearth-mine.container").write_text("[Container]\nImage=mine\n")
    (tmp_path / "files/kokoro").mkdir(parents=True)
    ran: list[str] = []
    own = {LABEL: "kokoro"}
    listed: dict[str, list[dict[str, Any]]] = {
        "ps": [
            {"Names": ["hearth-kokoro"], "Labels": own, "ImageID": "used"},
            {"Names": ["mine"], "Labels": None, "ImageID": "theirs"},
        ],
        "network": [{"name": "hearth-kokoro", "labels": own}, {"name": "podman"}],
        "volume": [
            {"Name": "hearth-kokoro-var-lib-kokoro", "Labels": own},
            {"Name": "mine", "Labels": {}},
        ],
        "secret": [
            {"Spec": {"Name": "hearth-kokoro.key", "Labels": own}},
            {"Spec": {"Name": "mine", "Labels": {}}},
        ],
        "images": [
            {"Id": "used", "Names": ["localhost/hearth-debian-13-a:latest"], "Labels": {LABEL: ""}},
            {"Id": "old", "Names": ["localhost/hearth-debian-13-b:latest"], "Labels": {LABEL: ""}},
            {"Id": "theirs", "Names": ["mine"], "Labels": None},
        ],
    }
    monkeypatch.setattr(containers, "QUADLETS", str(quadlets))
    monkeypatch.setattr(containers, "FILES", str(tmp_path / "files"))
    monkeypatch.setattr(podman, "PROGRAM", "/bin/true")
    monkeypatch.setattr(podman, "listed", lambda kind, *_: listed[kind])
    monkeypatch.setattr(podman, "call", lambda *words: ran.append(" ".join(words)))
    monkeypatch.setattr(containers, "run", lambda *words: ran.append(" ".join(words)))
    return ran


def test_a_service_is_listed_whole_and_its_units_first(machine: list[str]) -> None:
    found = [trace.what for trace in containers.of_services({"kokoro"})]
    assert found[:2] == ["unit hearth-kokoro.service", "unit hearth-kokoro-network.service"]
    assert {*found[2:]} == {
        "quadlet hearth-kokoro-var-lib-kokoro.volume",
        found[3],
        "container hearth-kokoro",
        "network hearth-kokoro",
        "secret hearth-kokoro.key",
    }
    assert found[3].startswith("files ")


def test_data_go_on_request_only(machine: list[str]) -> None:
    found = [trace.what for trace in containers.of_services({"kokoro"}, {"kokoro"})]
    assert found[-1] == "volume hearth-kokoro-var-lib-kokoro with its data"


def test_removed_is_what_was_listed(machine: list[str], tmp_path: Path) -> None:
    for trace in containers.of_services({"kokoro"}, {"kokoro"}):
        trace.remove()
    assert "systemctl stop hearth-kokoro.service" in machine
    assert "rm --force --ignore hearth-kokoro" in machine
    assert "volume rm --force hearth-kokoro-var-lib-kokoro" in machine
    left = sorted(path.name for path in (tmp_path / "systemd").iterdir())
    assert not any(name.startswith("hearth-kokoro.") for name in left)
    # Another service of ours, and a container that is not ours, are left alone.
    assert {"hearth-kokoro-gpu.container", "hearth-mine.container"} <= {*left}
    assert not any("mine" in line or "gpu" in line for line in machine)


def test_an_image_that_is_used_or_not_ours_stays(machine: list[str]) -> None:
    found = [trace.what for trace in containers.unused_images(())]
    assert found == ["image localhost/hearth-debian-13-b:latest"]
    assert containers.unused_images({"localhost/hearth-debian-13-b:latest"}) == []


def test_what_is_not_ours_keeps_podman_installed(machine: list[str]) -> None:
    assert containers.of_all() == ["kokoro", "kokoro_gpu"]
    assert containers.stays(data=True) == [
        "Podman: volume mine, which Hearth did not make",
        "Podman: container mine, which Hearth did not make",
        "Podman: image mine, which Hearth did not make",
    ]
    assert containers.stays(data=False)[0] == "data  volume hearth-kokoro-var-lib-kokoro in Podman"
