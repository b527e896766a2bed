"""The machine before Hearth is recorded once, without Hearth's own changes."""

import json
from pathlib import Path

import pytest

from hearth.remove import before


def test_the_first_record_stays_and_requests_add_up(tmp_path: Path) -> None:
    assert before.record_before(tmp_path, ["caddy"], write=True, state=tmp_path)
    # As if a package had been installed that is gone now.
    record = tmp_path / "before.json"
    record.write_text(record.read_text().replace('"dpkg"', '"dpkg", "once-here"'))
    first = record.read_bytes()
    assert not before.record_before(tmp_path, ["caddy"], write=True, state=tmp_path)
    assert before.record_before(tmp_path, ["no-such-tool"], write=True, state=tmp_path)
    assert (tmp_path / "before.json").read_bytes() == first
    assert before.requested(tmp_path) == {"caddy", "no-such-tool"}
    seen = before.read_record(tmp_path)
    assert seen.known
    assert "dpkg" in seen.packages
    assert "root" in seen.users


def test_a_preview_writes_nothing(tmp_path: Path) -> None:
    assert before.record_before(tmp_path, ["caddy"], write=False, state=tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_packages_are_those_from_before_the_first_command(tmp_path: Path) -> None:
    earlier = tmp_path / before.EARLIER
    earlier.parent.mkdir()
    earlier.write_text("bash\ndpkg\n")
    assert before.read_machine(tmp_path).packages == {"bash", "dpkg"}


def test_a_name_that_is_not_utf8_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(before, "PLACES", (str(tmp_path),))
    (tmp_path / "\udcff.conf").touch()
    before.record_before(tmp_path, [], write=True, state=tmp_path)
    seen = before.read_record(tmp_path)
    assert str(tmp_path / "\udcff.conf") in seen.paths


def test_a_record_made_after_the_first_run_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "converged").mkdir()
    before.record_before(tmp_path, [], write=True, state=tmp_path)
    seen = before.read_record(tmp_path)
    assert not seen.known


def test_a_killed_record_is_completed(tmp_path: Path) -> None:
    before.record_before(tmp_path, ["age"], write=True, state=tmp_path)
    (tmp_path / "before.json").unlink()
    assert before.record_before(tmp_path, ["age"], write=True, state=tmp_path)
    assert json.loads((tmp_path / "requested.json").read_text()) == ["age"]


def test_packages_installed_by_people_between_two_houses_are_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(before, "installed", lambda: ["dpkg"])
    wanted = ["caddy", "curl"]
    before.record_before(tmp_path, wanted, ["git"], write=True, state=tmp_path)
    # The house was removed, its data stayed; a person installs these two for themselves.
    before.forget_gone(tmp_path)
    monkeypatch.setattr(before, "installed", lambda: ["curl", "dpkg", "git"])
    assert before.record_before(tmp_path, wanted, ["python3-venv"], write=True, state=tmp_path)
    assert before.requested(tmp_path) == {"caddy", "python3-venv"}


def test_a_new_house_discards_the_list_of_an_unfinished_purge(tmp_path: Path) -> None:
    before.record_before(tmp_path, ["age"], write=True, state=tmp_path)
    (tmp_path / before.UNFINISHED).write_text('["caddy"]')
    assert before.record_before(tmp_path, ["age"], write=False, state=tmp_path)
    assert before.unfinished(tmp_path) == ["caddy"]
    assert before.record_before(tmp_path, ["age"], write=True, state=tmp_path)
    assert before.unfinished(tmp_path) == []
    assert not before.record_before(tmp_path, ["age"], write=True, state=tmp_path)
