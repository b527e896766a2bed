"""The inventory records that a service is gone, and everything else in the file stays."""

from pathlib import Path

import pytest
import yaml

from hearth.remove import RemoveError
from hearth.remove.service import FILE, note_absent
from hearth.yaml_edit import with_value
from tests.role_data import ROOT

PRESENT = ("services", "chat", "present")

HABITS = [
    "---\n",
    "",
    "---\nservices:\n  ollama: {image: debian/forky}   # the lab's\n",
    "---\nservices:\n  chat:\n    # why\n    limits: {memory: 1GiB}\n  ollama:\n    gpu: none\n",
    "services: {chat: {port: 1}}\n",
    "services:\n    chat: {port: 1, present: true}\n",
    "services:\n  chat:\n    port: 1\n    present: yes   # for now\n",
    "services:\n  chat:\nparts: {}\n",
    "services:\n  voice: {port: 1}",
]


@pytest.mark.parametrize("text", HABITS)
def test_only_this_one_value_changes(text: str) -> None:
    before = yaml.safe_load(text) or {}
    services = before.get("services") or {}
    new = with_value(text, PRESENT, False)
    assert new.endswith("\n")
    wanted = {**services, "chat": {**(services.get("chat") or {}), "present": False}}
    assert yaml.safe_load(new) == {**before, "services": wanted}
    for remark in ("# why", "# the lab's", "# for now"):
        assert (remark in text) == (remark in new)


def test_a_text_that_cannot_be_edited_safely_is_left_alone() -> None:
    # Two services share one record: a change of the one would change the other.
    with pytest.raises(ValueError, match="another meaning"):
        with_value("services:\n  voice: &one {port: 1}\n  chat: *one\n", PRESENT, False)


def inventory(folder: Path) -> Path:
    for path in (ROOT / "inventory").glob("*.yml"):
        (folder / path.name).write_text(path.read_text())
    (folder / "pipelines").mkdir()
    return folder


def test_a_removal_that_makes_the_house_invalid_is_refused(tmp_path: Path) -> None:
    folder = inventory(tmp_path)
    with pytest.raises(RemoveError, match="pipelines needs litellm, which is off"):
        note_absent(folder, "litellm")
    assert not (folder / FILE).exists()


def test_it_is_written_into_the_local_file(tmp_path: Path) -> None:
    folder = inventory(tmp_path)
    note_absent(folder, "open_webui")
    assert yaml.safe_load((folder / FILE).read_text()) == {
        "services": {"open_webui": {"present": False}}
    }


def test_a_house_with_settings_of_its_own_can_lose_a_service(tmp_path: Path) -> None:
    (tmp_path / "inventory").mkdir()
    (tmp_path / "roles").symlink_to(ROOT / "roles")
    folder = inventory(tmp_path / "inventory")
    (folder / FILE).parent.mkdir()
    (folder / FILE).write_text(
        "parts: {dnsmasq: {settings: {dnsmasq_private_names: [example.org]}}}\n"
    )
    note_absent(folder, "open_webui")
    assert "present: false" in (folder / FILE).read_text()
