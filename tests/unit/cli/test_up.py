"""`hearth up` links the command `hearth` unless another program has that name."""

from pathlib import Path

import pytest

from hearth.cli import up
from hearth.project import Project


@pytest.mark.parametrize(
    ("link", "ours"),
    [
        (None, True),
        ("/srv/old-checkout/scripts/hearth", True),
        ("/opt/another/bin/hearth", False),
    ],
)
def test_only_a_link_to_a_script_of_ours_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str | None, ours: bool
) -> None:
    command = tmp_path / "hearth"
    monkeypatch.setattr(up, "_COMMAND", command)
    if link:
        command.symlink_to(link)
    up._link_command(Project(tmp_path))
    assert str(command.readlink()) == (str(tmp_path / "scripts/hearth") if ours else link)


def test_a_program_of_that_name_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "hearth"
    command.write_text("theirs")
    monkeypatch.setattr(up, "_COMMAND", command)
    up._link_command(Project(tmp_path))
    assert command.read_text() == "theirs"
