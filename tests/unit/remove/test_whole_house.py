"""The whole house goes; what people made, and what keeps it, stays until that is asked for."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from hearth.project import Project
from hearth.remove import RemoveError, before, incus, machine, whole_house
from hearth.remove.before import Before
from tests.unit.remove.test_incus import Engine

WORLD = ("caddy", "curl", "incus-base")


def apt(*argv: str, timeout_s: float = 0) -> str:
    gone = sorted({*argv} & {*WORLD})
    return "\n".join(WORLD if "showmanual" in argv else [f"Purg {name} [1]" for name in gone])


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Project:
    """A house with data in an Incus that nobody else uses, on a machine that had curl before."""
    engine = Engine()
    engine.made.pop("theirs")
    engine.pictures.pop("debian/13")
    nobody = SimpleNamespace(json=lambda: {"metadata": []})
    engine.api = SimpleNamespace(networks=SimpleNamespace(get=lambda params: nobody))
    monkeypatch.setattr(incus, "connect", lambda: engine)
    was = Before(True, frozenset({"curl"}))
    monkeypatch.setattr(before, "STATE", tmp_path / "state")
    monkeypatch.setattr(before, "read_record", lambda: was)
    monkeypatch.setattr(before, "requested", lambda: frozenset(WORLD))
    monkeypatch.setattr(before, "installed", lambda: [*WORLD])
    monkeypatch.setattr(before, "run", apt)
    for name in ("units", "firewall", "engine", "users"):
        monkeypatch.setattr(machine, name, list)
    monkeypatch.setattr(machine, "settings", lambda seen: [])
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    made = Project(tmp_path / "project")
    for path in (made.vault.path, made.vault.password_file, tmp_path / "state/before.json"):
        path.parent.mkdir(parents=True)
        path.touch()
    return made


def test_data_stay_with_what_keeps_and_opens_them(project: Project) -> None:
    found = whole_house.plan_removal(project, data=False)
    goes = [trace.what for trace in found.goes]
    assert "instance chat" in goes
    assert "packages: caddy" in goes
    kept = ("volume", "storage pool", "incus-base", str(project.vault.path), "before.json")
    assert [what for what in goes if any(word in what for word in kept)] == []
    assert f"folder {before.STATE}" not in goes
    assert "data  volume chat-data in Incus' pool" in found.stays
    assert "package incus-base: the remaining data need it" in found.stays
    secrets = f"{project.vault.path} and {project.vault.password_file}"
    assert f"the secrets and the authority: {secrets}" in found.stays


def test_they_go_when_that_is_said_and_the_record_of_before_goes_last(project: Project) -> None:
    found = whole_house.plan_removal(project, data=True)
    goes = [trace.what for trace in found.goes]
    order = (
        *("instance chat", "volume chat-data with its data", "storage pool hearth"),
        *("packages: caddy incus-base", f"file {project.vault.path}", f"folder {before.STATE}"),
    )
    assert [what for what in goes if what in order] == [*order]
    assert found.stays == [f"the project and its inventory: {project.root}"]


def test_data_in_an_incus_that_stays_and_does_not_answer_are_not_forgotten(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(incus, "connect", lambda: None)
    monkeypatch.setattr(incus, "SOCKET", str(tmp_path / "incus/unix.socket"))
    (tmp_path / "incus/storage-pools/hearth/custom/default_chat").mkdir(parents=True)
    # Incus was there before Hearth, so it does not go.
    monkeypatch.setattr(before, "requested", lambda: frozenset({"caddy"}))
    with pytest.raises(RemoveError, match="it holds default_chat: `systemctl start incus`"):
        whole_house.plan_removal(project, data=True)
