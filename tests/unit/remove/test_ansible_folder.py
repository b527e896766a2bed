"""Ansible's own folder is removed unless Ansible was in use before the house."""

from pathlib import Path

import pytest

from hearth.remove import before


@pytest.mark.parametrize("fresh", [True, False])
def test_the_folder_stays_only_if_it_existed_before(
    fresh: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".ansible"
    folder.mkdir()
    monkeypatch.setattr(before, "PLACES", (str(tmp_path),))
    monkeypatch.setattr(before, "ANSIBLE", str(folder))
    (tmp_path / ".hearth").mkdir()
    if fresh:
        (tmp_path / before.NO_ANSIBLE).touch()
    assert (str(folder) in before.read_machine(tmp_path).paths) == (not fresh)
