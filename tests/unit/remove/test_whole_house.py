"""The whole house is removed; people's data, and what keeps them, stay unless requested."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from hearth.project import Project
from hearth.remove import RemoveError, before, incus, whole_house
from hearth.remove.before import Before
from tests.unit.remove.test_incus import Engine

WORLD = ("caddy", "curl", "incus-base")


def apt(*argv: str, timeout_s: float = 0) -> str:
    gone = sorted({*argv} & {*WORLD})
    return "\n".join(WORLD if "showmanual" in argv else [f"Purg {name} [1]" for name in gone])


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Project:
    """A house with data in an Incus with nothing else in it, on a machine that had curl before."""
    engine = Engine()
    engine.present.pop("theirs")
    engine.stored.pop("debian/13")
    response = SimpleNamespace(json=lambda: {"metadata": []})
    engine.api = SimpleNamespace(networks=SimpleNamespace(get=lambda params: response))
    monkeypatch.setattr(incus, "connect", lambda: engine)
    was = Before(True, frozenset({"curl"}))
    monkeypatch.setattr(before, "STATE", tmp_path / "state")
    monkeypatch.setattr(before, "read_record", lambda: was)
    monkeypatch.setattr(before, "requested", lambda: frozenset(WORLD))
    monkeypatch.setattr(before, "installed", lambda: [*WORLD])
    monkeypatch.setattr(before, "run", apt)
    for name in ("units", "firewall", "engine", "users"):
        monkeypatch.setattr(whole_house, name, list)
    monkeypatch.setattr(whole_house, "settings", lambda seen: [])
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    house = Project(tmp_path / "project")
    for path in (house.vault.path, house.vault.password_file, tmp_path / "state/before.json"):
        path.parent.mkdir(parents=True)
        path.touch()
    return house


@pytest.mark.parametrize(("later", "goes"), [([], True), (["prometheus-alertmanager"], False)])
def test_a_user_that_a_later_package_shares_stays(
    project: Project, monkeypatch: pytest.MonkeyPatch, later: list[str], goes: bool
) -> None:
    monkeypatch.setattr(before, "installed", lambda: [*WORLD, *later])
    monkeypatch.setattr(whole_house, "is_known", lambda user: user == "prometheus")
    found = {trace.what for trace in whole_house.plan_removal(project, data=False).goes}
    named = {what for what in found if what.startswith("user prometheus of ")}
    assert bool(named) is goes


def test_data_stay_with_their_engine_and_secrets(project: Project) -> None:
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


def test_requested_data_are_removed_and_the_record_is_last(project: Project) -> None:
    found = whole_house.plan_removal(project, data=True)
    goes = [trace.what for trace in found.goes]
    order = (
        *("instance chat", "volume chat-data with its data", "storage pool hearth"),
        *("packages: caddy incus-base", f"file {project.vault.path}", f"folder {before.STATE}"),
    )
    assert [what for what in goes if what in order] == [*order]
    assert found.stays == [f"the project and its inventory: {project.root}"]


def test_data_in_a_stopped_incus_that_stays_are_not_forgotten(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(incus, "connect", lambda: None)
    monkeypatch.setattr(incus, "SOCKET", str(tmp_path / "incus/unix.socket"))
    (tmp_path / "incus/storage-pools/hearth/custom/default_chat").mkdir(parents=True)
    # Incus was there before Hearth, so it does not go.
    monkeypatch.setattr(before, "requested", lambda: frozenset({"caddy"}))
    with pytest.raises(RemoveError, match="it holds default_chat: `systemctl start incus`"):
        whole_house.plan_removal(project, data=True)


def test_only_the_ranges_that_incus_added_are_removed(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ranges = tmp_path / "subuid"
    ranges.write_text("anna:100000:65536\nroot:1000000:1000000000\ncontainers:165536:65536\n")
    was = Before(True, frozenset({"curl"}), subordinate={str(ranges): "anna:100000:65536\n"})
    monkeypatch.setattr(before, "read_record", lambda: was)
    (trace,) = (
        trace
        for trace in whole_house.plan_removal(project, data=True).goes
        if trace.what == f"ranges of users in {ranges}"
    )
    trace.remove()
    assert ranges.read_text() == "anna:100000:65536\ncontainers:165536:65536\n"
    goes = whole_house.plan_removal(project, data=True).goes
    assert trace.what not in [found.what for found in goes]
