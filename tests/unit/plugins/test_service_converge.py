"""What is there decides, never what this run did: files, users, restarts, and killed runs.

systemctl is a small script here that keeps a unit's state in a file and records its calls;
everything else is the module itself on a folder.
"""

from __future__ import annotations

import errno
import hmac
import json
import os
import stat
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hearth.machine import converged
from tests.unit.plugins.by_path import plugin

UNIT = "[Service]\nExecStart=/bin/true\n"
SYSTEMCTL = """#!/bin/sh
echo "$*" >> {home}/calls
case "$1" in
  show)
    cat {home}/state
    [ ! -e {home}/restarts ] || echo "NRestarts=$(cat {home}/restarts)"
    echo x >> {home}/looks
    [ ! -e {home}/loops ] || wc -l < {home}/looks > {home}/restarts ;;
  disable)
    printf 'ActiveState=inactive\\nUnitFileState=disabled\\n' > {home}/state ;;
  start|restart|reload)
    if [ -e {home}/broken ]; then echo "Job for $2 failed." >&2; exit 1; fi
    printf 'ActiveState=active\\nUnitFileState=enabled\\nNeedDaemonReload=no\\n' > {home}/state ;;
esac
"""
JOURNALCTL = "#!/bin/sh\necho the last words\n"
DOWN = "ActiveState=inactive\nUnitFileState=disabled\nNeedDaemonReload=no\n"
HEALTHY = {"command": ["/bin/true"], "ready_s": 0}


class Killed(BaseException):
    """The run ends here, as a kill would end it."""


class Machine:
    """A folder that stands for a machine, and the module on it."""

    def __init__(self, home: Path, module: ModuleType) -> None:
        self.home, self.module = home, module
        self.secrets: dict[str, str] = {}
        self.every: list[str] = []
        self.config = home / "etc/app.conf"
        self.params: dict[str, Any] = {
            "name": "app",
            "unit": UNIT,
            "user": "",
            "uid": -1,
            "folders": [],
            "files": [{"path": str(self.config), "content": "port = 1\n"}],
            "credentials": {},
            "watch": [],
            "observe": [],
            "files_only": False,
            "reloads": False,
            "enabled": True,
            "stopped": False,
            "health": dict(HEALTHY),
        }

    def converge(self, check_mode: bool = False, diff: bool = False, **more: Any) -> dict[str, Any]:
        """Run the module; what it answers."""
        params = {**self.params, **more}
        result: dict[str, Any] = self.module.converge(
            params, write=not check_mode, diff=diff, secrets=self.secrets
        )
        return result

    def calls(self) -> list[str]:
        """Return the changes requested of systemctl since the last call."""
        path = self.home / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        self.every = lines
        path.unlink(missing_ok=True)
        return [line for line in lines if line.split()[0] in ("start", "restart", "reload")]

    def tree(self) -> dict[str, tuple[int, bytes]]:
        """Every file with its mode and content, except what systemctl wrote down."""
        return {
            str(path.relative_to(self.home)): (path.stat().st_mode, path.read_bytes())
            for path in sorted(self.home.rglob("*"))
            if path.is_file() and path.name not in ("calls", "looks")
        }


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    module = plugin("modules", "service_converge")
    for name, folder in (
        ("RECORDS", "records"),
        ("CREDENTIALS", "credentials"),
        ("UNITS", "units"),
        ("USERS", "users"),
    ):
        monkeypatch.setattr(module, name, tmp_path / folder)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL)):
        (programs / name).write_text(text.format(home=tmp_path))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (tmp_path / "state").write_text(DOWN)
    # On a machine root runs it; here it is the user of the tests.
    own = (os.getuid(), os.getgid())
    known = module.owner_of
    monkeypatch.setattr(
        module, "owner_of", lambda item: own if item.get("owner", "root") == "root" else known(item)
    )
    return Machine(tmp_path, module)


def test_the_first_run_writes_and_starts_and_the_second_does_nothing(machine: Machine) -> None:
    first = machine.converge()
    assert first["changed"]
    assert machine.calls() == ["restart app.service"]
    assert machine.config.read_text() == "port = 1\n"
    assert stat.S_IMODE(machine.config.stat().st_mode) == 0o644
    before = machine.tree()
    nothing = {"changed": False, "action": "", "files": [], "did": [], "diff": []}
    assert machine.converge() == nothing
    assert machine.calls() == []
    assert machine.tree() == before


@pytest.mark.parametrize(
    "more",
    [
        {"files": [{"path": "{home}/etc/app.conf", "content": "port = 2\n"}]},
        {"unit": UNIT + "User=app\n"},
    ],
    ids=["file", "unit"],
)
def test_changed_content_causes_a_restart(machine: Machine, more: dict[str, Any]) -> None:
    machine.converge()
    machine.calls()
    more = json.loads(json.dumps(more).replace("{home}", str(machine.home)))
    assert machine.converge(**more)["action"] == "restart"
    assert machine.calls() == ["restart app.service"]
    assert not machine.converge(**more)["changed"]


def test_a_changed_watched_link_causes_a_restart(machine: Machine) -> None:
    link = machine.home / "current"
    link.symlink_to("one")
    machine.converge(watch=[str(link)])
    machine.calls()
    assert not machine.converge(watch=[str(link)])["changed"]
    link.unlink()
    link.symlink_to("two")
    assert machine.converge(watch=[str(link)])["action"] == "restart"


def test_the_output_of_a_command_is_part_of_the_state(machine: Machine) -> None:
    ruleset = machine.home / "ruleset"
    ruleset.write_text("table inet hearth\n")
    observe = [["/bin/cat", str(ruleset)]]
    machine.converge(observe=observe)
    machine.calls()
    assert not machine.converge(observe=observe)["changed"]
    ruleset.write_text("")
    assert machine.converge(observe=observe)["action"] == "restart"


def test_only_its_own_files_reload_a_program_that_can(machine: Machine) -> None:
    machine.converge(reloads=True)
    machine.calls()
    other = [{"path": str(machine.config), "content": "port = 2\n"}]
    assert machine.converge(reloads=True, files=other)["action"] == "reload"
    assert machine.converge(reloads=True, files=other, unit=UNIT + "#\n")["action"] == "restart"
    assert machine.calls() == ["reload app.service", "restart app.service"]


def test_a_stopped_program_is_started_instead_of_reloaded(machine: Machine) -> None:
    machine.converge(reloads=True)
    (machine.home / "state").write_text(DOWN)
    other = [{"path": str(machine.config), "content": "port = 2\n"}]
    assert machine.converge(reloads=True, files=other)["action"] == "restart"


@pytest.mark.parametrize(
    ("state", "action"),
    [
        (DOWN, "start"),
        ("ActiveState=failed\nUnitFileState=enabled\n", "start"),
        ("ActiveState=active\nUnitFileState=disabled\n", "enable"),
        ("ActiveState=active\nUnitFileState=enabled\nNeedDaemonReload=yes\n", "daemon-reload"),
        (
            "ActiveState=inactive\nUnitFileState=enabled\nConditionResult=no\n"
            "ConditionTimestampMonotonic=5\n",
            "",
        ),
        # A timer that never started: systemd has not looked at its conditions.
        (
            "ActiveState=inactive\nUnitFileState=disabled\nConditionResult=no\n"
            "ConditionTimestampMonotonic=0\n",
            "start",
        ),
    ],
)
def test_a_missing_part_of_the_running_state_is_repaired(
    machine: Machine, state: str, action: str
) -> None:
    machine.converge()
    (machine.home / "state").write_text(state)
    assert machine.converge()["action"] == action


@pytest.mark.parametrize("reloads", [False, True])
def test_a_file_edited_by_hand_is_repaired_and_the_program_reads_it_again(
    machine: Machine, reloads: bool
) -> None:
    machine.converge(reloads=reloads)
    machine.calls()
    machine.config.write_text("port = 6666\n")  # and perhaps the program was restarted with it
    assert machine.converge(reloads=reloads)["files"] == [str(machine.config)]
    assert machine.config.read_text() == "port = 1\n"
    assert machine.calls() == ["reload app.service" if reloads else "restart app.service"]
    assert not machine.converge(reloads=reloads)["changed"]


def test_a_unit_edited_by_hand_restarts_even_a_program_that_can_reload(machine: Machine) -> None:
    machine.converge(reloads=True)
    machine.calls()
    (machine.home / "units/app.service").write_text(UNIT + "User=root\n")
    assert machine.converge(reloads=True)["action"] == "restart"


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_mode_changed_by_hand_is_repaired(machine: Machine, mode: int) -> None:
    machine.converge()
    machine.config.chmod(mode)
    assert machine.converge()["files"] == [str(machine.config)]
    assert stat.S_IMODE(machine.config.stat().st_mode) == 0o644


@pytest.mark.parametrize("point", ["after writing", "before systemd", "before the record"])
@pytest.mark.parametrize("edited", ["catalogue", "by hand"])
def test_a_run_that_was_killed_leaves_nothing_undone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, point: str, edited: str
) -> None:
    machine.converge()
    more: dict[str, Any] = {}
    if edited == "catalogue":
        more["files"] = [{"path": str(machine.config), "content": "port = 2\n"}]
    else:
        machine.config.write_text("port = 6666\n")
    with monkeypatch.context() as patch:
        kill_at(machine, patch, point)
        with pytest.raises(Killed):
            machine.converge(**more)
    machine.calls()
    assert machine.converge(**more)["action"] == "restart"
    assert machine.calls() == ["restart app.service"]
    assert not machine.converge(**more)["changed"]


def kill_at(machine: Machine, patch: pytest.MonkeyPatch, point: str) -> None:
    """Let the next run end at one point."""
    write_file, act = machine.module.write_file, machine.module.act

    def write_and_die(file: dict[str, Any]) -> None:
        write_file(file)
        if file["path"] == str(machine.config):
            raise Killed

    def act_and_die(*args: Any) -> None:
        if point == "before the record":
            act(*args)
        raise Killed

    if point == "after writing":
        patch.setattr(machine.module, "write_file", write_and_die)
    else:
        patch.setattr(machine.module, "act", act_and_die)


def test_a_program_that_does_not_start_is_retried_by_the_next_run(machine: Machine) -> None:
    (machine.home / "broken").touch()
    with pytest.raises(machine.module.Trouble) as caught:
        machine.converge()
    assert str(caught.value) == "systemctl restart app.service: Job for app.service failed."
    (machine.home / "broken").unlink()
    assert machine.converge()["action"] == "restart"


def test_the_doctor_finds_later_edits_and_a_run_that_was_cut_short(machine: Machine) -> None:
    def seen() -> tuple[list[str], list[str]]:
        found = converged.look([], machine.home / "records")
        return [how for _, how in found["edited"]], found["unfinished"]

    machine.converge()
    assert seen() == ([], [])
    machine.config.write_text("port = 2\n")
    assert seen() == (["its text differs"], [])
    (machine.home / "broken").touch()
    with pytest.raises(machine.module.Trouble):
        machine.converge()
    assert seen() == ([], ["app"])
    (machine.home / "broken").unlink()
    machine.converge()
    assert seen() == ([], [])
    assert machine.converge()["changed"] is False
    # Files without a program are recorded as well.
    machine.config.unlink()
    machine.converge(files_only=True)
    assert seen() == ([], [])


def test_a_program_that_is_not_healthy_is_not_recorded_and_its_journal_is_shown(
    machine: Machine,
) -> None:
    sick = {"command": ["/bin/false"], "ready_s": 0}
    with pytest.raises(machine.module.Trouble) as caught:
        machine.converge(health=sick)
    assert str(caught.value) == (
        "app is not healthy after 0 s (exit code 1; active); its last log lines:\nthe last words\n"
    )
    assert machine.converge()["action"] == "restart"


def test_a_crash_loop_ends_the_wait_early(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.module.time, "sleep", lambda _: None)
    (machine.home / "loops").touch()
    # Those of last week do not count.
    (machine.home / "restarts").write_text("0\n")
    with pytest.raises(machine.module.Trouble) as caught:
        machine.converge(health={"command": ["/bin/false"], "ready_s": 5})
    assert str(caught.value).startswith("app ended 6 times in ")
    assert str(caught.value).endswith(" s (exit code 1); its last log lines:\nthe last words\n")


def test_a_file_that_its_checker_rejects_does_not_replace_the_old_one(machine: Machine) -> None:
    machine.converge()
    machine.calls()
    check = ["/bin/grep", "-q", "good", "%s"]
    bad = [{"path": str(machine.config), "content": "bad\n", "check": check}]
    with pytest.raises(machine.module.Trouble) as caught:
        machine.converge(files=bad)
    refusal = f"{machine.config} was not replaced, its checker rejected it: /bin/grep -q good: "
    assert str(caught.value) == refusal + "no output"
    assert machine.config.read_text() == "port = 1\n"
    assert [path.name for path in machine.config.parent.iterdir()] == ["app.conf"]
    assert machine.calls() == []
    good = [{"path": str(machine.config), "content": "good\n", "check": check}]
    assert machine.converge(files=good)["action"] == "restart"


def test_a_full_disk_is_one_line_and_the_next_run_does_the_rest(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    machine.converge()
    files = [{"path": str(machine.config), "content": "port = 2\n"}]
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(machine.module.Trouble, match="was not replaced: No space left"):
            machine.converge(files=files)
    assert [path.name for path in machine.config.parent.iterdir()] == ["app.conf"]
    assert machine.config.read_text() == "port = 1\n"
    assert machine.converge(files=files)["action"] == "restart"
    assert machine.converge(files=files)["changed"] is False


def test_a_link_in_place_of_a_file_is_replaced_and_its_target_unchanged(
    machine: Machine,
) -> None:
    target = machine.home / "shadow"
    target.write_text("port = 1\n")
    machine.config.parent.mkdir()
    machine.config.symlink_to(target)
    machine.converge(files=[{"path": str(machine.config), "content": "port = 1\n"}])
    assert not machine.config.is_symlink()
    assert target.read_text() == "port = 1\n"
    target.write_text("untouched\n")
    assert not machine.converge()["changed"]
    assert target.read_text() == "untouched\n"


def test_a_link_in_place_of_a_folder_is_rejected(machine: Machine) -> None:
    target = machine.home / "etc-of-root"
    target.mkdir(mode=0o700)
    link = machine.home / "models"
    link.symlink_to(target)
    with pytest.raises(machine.module.Trouble) as caught:
        machine.converge(folders=[{"path": str(link), "owner": "root", "mode": "0777"}])
    assert str(caught.value) == f"{link} is a link and must be a folder: remove it"
    assert stat.S_IMODE(target.stat().st_mode) == 0o700


def test_folders_are_created_and_repaired(machine: Machine) -> None:
    folder = machine.home / "var/lib/app"
    folders = [{"path": str(folder), "owner": "root", "mode": "0750"}]
    machine.converge(folders=folders)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    folder.chmod(0o777)
    assert machine.converge(folders=folders) == {
        "changed": True,
        "action": "",
        "files": [str(folder)],
        "did": [f"make {folder}"],
        "diff": [],
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750


def test_a_folder_with_another_owner_is_taken_over_completely(machine: Machine) -> None:
    folder = machine.home / "srv/models"
    (folder / "blobs").mkdir(parents=True)
    blob, outside = folder / "blobs" / "sha256-1", machine.home / "outside"
    for path in (blob, outside):
        path.touch()
        os.chown(path, 65534, 65534)
    (folder / "link").symlink_to(outside)
    os.chown(folder, 65534, 65534)
    folders = [{"path": str(folder), "owner": "root", "whole": True}]
    machine.converge(folders=folders)
    assert blob.stat().st_uid == 0
    assert outside.stat().st_uid == 65534
    assert not machine.converge(folders=folders)["changed"]


def test_check_mode_reports_what_would_happen_and_writes_nothing(machine: Machine) -> None:
    folders = [{"path": str(machine.home / "var"), "owner": "root"}]
    before = machine.tree()
    result = machine.converge(check_mode=True, diff=True, folders=folders)
    assert result["changed"]
    assert result["action"] == "restart"
    assert machine.tree() == before
    assert not (machine.home / "var").exists()
    assert machine.calls() == []


def test_check_mode_predicts_the_run(machine: Machine) -> None:
    machine.converge(reloads=True)
    machine.config.write_text("port = 6666\n")
    foretold = machine.converge(check_mode=True, reloads=True)
    assert foretold["action"] == "reload"
    assert foretold["did"] == [f"write {machine.config}", "reload app"]
    assert machine.config.read_text() == "port = 6666\n"
    assert machine.converge(reloads=True) == foretold


def test_the_diff_shows_a_file_before_and_after(machine: Machine) -> None:
    machine.converge()
    files = [{"path": str(machine.config), "content": "port = 2\n"}]
    assert machine.converge(check_mode=True, diff=True, files=files)["diff"] == [
        {
            "before": "port = 1\n",
            "after": "port = 2\n",
            "before_header": str(machine.config),
            "after_header": str(machine.config),
        }
    ]


SECRETS = {"key": "hunter2", "password": "swordfish"}
as_root = pytest.mark.skipif(os.getuid() != 0, reason="credentials belong to root")


def salted(secrets: dict[str, str]) -> dict[str, str]:
    """Return what the action sends instead of values."""
    return {
        name: f"salt:{hmac.new(b'salt', value.encode(), 'sha256').hexdigest()}"
        for name, value in secrets.items()
    }


def secret_run(machine: Machine, secrets: dict[str, str], **more: Any) -> dict[str, Any]:
    """Converge with credentials; no value may be in the result or the record."""
    machine.secrets = secrets
    result = machine.converge(credentials=salted(secrets), **more)
    record = machine.home / "records/app.json"
    shown = json.dumps(result) + (record.read_text() if record.exists() else "")
    assert not any(value in shown for value in [*SECRETS.values(), "hunter3"])
    return result


@as_root
def test_secrets_are_written_once_and_for_root_only(machine: Machine) -> None:
    folder = machine.home / "credentials/app"
    did = secret_run(machine, SECRETS)["did"]
    assert [f"write {folder / name}" for name in SECRETS] == did[:2]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name, value in SECRETS.items():
        assert (folder / name).read_text() == value
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o400
    assert not secret_run(machine, SECRETS)["changed"]


@as_root
def test_a_changed_secret_causes_a_restart_and_is_in_neither_result_nor_record(
    machine: Machine,
) -> None:
    secret_run(machine, SECRETS)
    machine.calls()
    result = secret_run(machine, {**SECRETS, "key": "hunter3"}, diff=True)
    assert result["action"] == "restart"
    assert machine.calls() == ["restart app.service"]
    assert not secret_run(machine, {**SECRETS, "key": "hunter3"})["changed"]


@as_root
def test_a_run_killed_after_a_secret_was_written_restarts_later(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret_run(machine, SECRETS)
    with monkeypatch.context() as context:
        context.setattr(machine.module, "make_user", _killed)
        with pytest.raises(Killed):
            secret_run(machine, {**SECRETS, "key": "hunter3"})
    machine.calls()
    assert secret_run(machine, {**SECRETS, "key": "hunter3"})["action"] == "restart"
    assert machine.calls() == ["restart app.service"]


def _killed(*_: object) -> None:
    raise Killed


@as_root
@pytest.mark.parametrize("mode", [0o440, 0o644])
def test_a_secret_that_others_could_read_is_repaired(machine: Machine, mode: int) -> None:
    secret_run(machine, SECRETS)
    path = machine.home / "credentials/app/key"
    path.chmod(mode)
    assert f"write {path}" in secret_run(machine, SECRETS)["did"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o400


@as_root
def test_a_link_in_place_of_a_secret_is_replaced_and_its_target_unchanged(
    machine: Machine,
) -> None:
    target = machine.home / "elsewhere"
    target.write_text("hunter2")
    target.chmod(0o400)
    folder = machine.home / "credentials/app"
    folder.mkdir(parents=True)
    (folder / "key").symlink_to(target)
    secret_run(machine, {"key": "hunter2"})
    assert not (folder / "key").is_symlink()
    assert target.read_text() == "hunter2"


@as_root
def test_check_mode_with_a_changed_secret_writes_nothing(machine: Machine) -> None:
    secret_run(machine, SECRETS)
    before = machine.tree()
    result = secret_run(machine, {**SECRETS, "key": "hunter3"}, check_mode=True)
    assert result["action"] == "restart"
    assert machine.tree() == before


@as_root
def test_secrets_are_sent_only_when_one_differs(machine: Machine) -> None:
    programs = [{**machine.params, "credentials": salted(SECRETS)}]
    converge = partial(machine.module.converge_all, programs, write=True, diff=False)
    before = machine.tree()
    assert converge(secrets={}) == {"changed": False, "needs_secrets": True}
    assert machine.tree() == before
    assert converge(secrets={"app": SECRETS})["changed"]
    assert not converge(secrets={})["changed"]


@as_root
def test_a_credential_that_is_no_longer_loaded_is_removed(machine: Machine) -> None:
    secret_run(machine, SECRETS)
    secret = machine.home / "credentials/app/password"
    kept = {"key": SECRETS["key"]}
    assert str(secret) in secret_run(machine, kept, check_mode=True)["files"]
    assert secret.exists()
    result = secret_run(machine, kept)
    assert result["files"] == [str(secret)]
    assert result["action"] == "restart"
    assert [path.name for path in secret.parent.iterdir()] == ["key"]
    assert not secret_run(machine, kept)["changed"]


@as_root
def test_who_only_makes_the_user_of_a_program_leaves_its_credentials(machine: Machine) -> None:
    secret_run(machine, SECRETS)
    more: dict[str, Any] = {"files": [], "files_only": True, "unit": "", "health": {}}
    assert not machine.converge(**more)["changed"]
    assert (machine.home / "credentials/app/password").exists()
    assert not secret_run(machine, SECRETS)["changed"]


def test_a_unit_that_must_not_run_is_stopped_once(machine: Machine) -> None:
    machine.converge()
    machine.calls()
    off: dict[str, Any] = {"enabled": False, "stopped": True}
    assert machine.converge(**off)["action"] == "stop"
    assert not machine.converge(**off)["changed"]
    assert machine.converge()["action"] == "start"


def test_files_without_a_unit_are_written_and_nothing_is_started(machine: Machine) -> None:
    more: dict[str, Any] = {"files_only": True, "unit": "", "health": {}}
    assert machine.converge(**more)["did"] == [f"write {machine.config}"]
    assert machine.calls() == []
    assert not machine.converge(**more)["changed"]
    machine.config.write_text("by hand\n")
    assert machine.converge(**more)["did"] == [f"write {machine.config}"]


def test_a_user_is_made_even_after_a_run_that_was_killed_before_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = machine.home / "made"
    sysusers = machine.home / "bin/systemd-sysusers"
    sysusers.write_text(f'#!/bin/sh\necho "$1" >> {made}\n')
    sysusers.chmod(0o755)
    there: list[str] = []
    known = machine.module.owner_of
    monkeypatch.setattr(
        machine.module,
        "owner_of",
        lambda item: (1, 1) if item.get("owner") in there else known(item),
    )
    user: dict[str, Any] = {"user": "hearth-no-such-user", "uid": 900}
    record = machine.home / "users/hearth-app.conf"
    record.parent.mkdir()
    record.write_text('u hearth-no-such-user 900 "Hearth" -\n')  # the killed run came this far
    record.chmod(0o644)
    machine.converge(**user)
    assert made.read_text() == f"{record}\n"
    there.append("hearth-no-such-user")
    assert not machine.converge(**user)["changed"]
    assert made.read_text() == f"{record}\n"


def test_half_written_files_of_a_killed_run_are_removed(machine: Machine) -> None:
    machine.converge()
    left = machine.config.with_name(f".{machine.config.name}.new")
    left.write_text("port = ")
    # The change was reverted before the next run: the file is right as it is.
    assert not machine.converge()["changed"]
    assert not left.exists()
    left.write_text("port = ")
    machine.converge(files=[{**machine.params["files"][0], "content": "port = 2\n"}])
    assert machine.config.read_text() == "port = 2\n"
    assert not left.exists()


def test_a_container_is_stopped_first_and_not_waited_for_by_systemctl(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.module, "check_generated", lambda unit: None)
    machine.converge(notifies=True)
    # The old one must not answer for the new one, and systemctl cannot say why that is not healthy.
    assert machine.calls() == ["start --no-block app.service"]
    assert "stop app.service" in machine.every
    assert not machine.converge(notifies=True)["changed"]


def test_a_quadlet_without_a_unit_is_an_error_with_podmans_reason(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = machine.home / "bin/generator"
    generator.write_text("#!/bin/sh\necho 'converting \"app.container\": unsupported key' >&2\n")
    generator.chmod(0o755)
    monkeypatch.setattr(machine.module, "GENERATOR", str(generator))
    with pytest.raises(machine.module.Trouble, match="was not made from its quadlet: converting"):
        machine.converge(notifies=True)


def test_ids_of_a_container_need_no_name_here(machine: Machine) -> None:
    own = {"owner": str(os.getuid()), "group": str(os.getgid())}
    folder = machine.home / "data"
    machine.converge(folders=[{"path": str(folder), "mode": "0750", **own}])
    assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (os.getuid(), 0o750)
