"""Back up the whole house while it works, and build it again from nothing but that file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab import backups, chat
from tests.lab.house import CLONE, House

pytestmark = pytest.mark.lab

LOCAL = f"{CLONE}/inventory/local/machines.yml"
MARKER = "The cat sleeps on the third stair"
# This many must exist before the backup starts, so that it proves something.
ROWS = 100


@pytest.fixture(scope="module")
def recipient(house: House) -> Iterator[str]:
    """Give the house a recovery key, as its owner makes it, and a timer; remove both at the end."""
    house.shell(f"cp --archive {LOCAL} /root/machines.kept 2>/dev/null || true")
    done = house.hearth("backup", "--new-key")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("AGE-SECRET-KEY-1")
    assert done.stdout.count("\n") == 1
    house.inside("/usr/bin/install", "-m", "600", "/dev/null", backups.KEY, check=True)
    house.shell(f"cat > {backups.KEY} <<'END'\n{done.stdout}END")
    _converge_timer(house)
    yield house.shell(f"sed -n 's/ *recipient: //p' {LOCAL}").strip()
    backups.refill(house)
    house.shell(f"rm -f {LOCAL}; [ ! -e /root/machines.kept ] || mv /root/machines.kept {LOCAL}")
    _converge_timer(house)


def _converge_timer(house: House) -> None:
    # The watcher judges the age of backups by the same record, and the broker reads its house.
    house.shell(
        f"cd {CLONE}; .venv/bin/ansible-playbook site.yml --tags backup,watch,broker", timeout=120
    )


@pytest.mark.usefixtures("recipient")
def test_every_night_a_backup_is_made_that_only_root_can_read(house: House) -> None:
    timer = house.shell("systemctl show hearth-backup.timer -p ActiveState,TimersCalendar")
    assert "ActiveState=active" in timer
    assert "OnCalendar=*-*-* 03:30:00" in timer
    began = time.monotonic()
    house.shell("systemctl start hearth-backup.service", timeout=120)
    house.figures["the nightly backup, s"] = time.monotonic() - began
    found = house.shell("stat -c '%a %U %n' /var/backups/hearth/* /var/backups/hearth/.h* || :")
    (line,) = found.splitlines()
    assert line.startswith("600 root /var/backups/hearth/hearth-house-"), line
    # The house cannot read its own backup: the identity is nowhere on the machine.
    leaks = house.inside(
        *("grep", "--recursive", "--files-with-matches", "-E", "AGE-SECRET-KEY-1[0-9A-Z]{58}"),
        *("/etc", "/var/log", "/var/lib/hearth", "/root/.config"),
        *(f"{CLONE}/inventory", f"{CLONE}/.hearth/logs"),
    )
    assert leaks.stdout == ""


@pytest.mark.usefixtures("recipient")
def test_a_house_that_lost_everything_comes_back_with_every_acknowledged_row(
    house: House,
) -> None:
    admin = chat.first(house)
    created = admin.request("POST", "/api/v1/chats/new", json={"chat": {"title": MARKER}})
    password = house.hearth("secret", "show", chat.PASSWORD, "--plain").stdout
    root = house.shell("sha256sum /etc/hearth/pki/root.crt")
    proof, report = _backup_while_writing(house)
    backups.empty(house)
    _refuse_a_damaged_one(house, report["path"])
    began = time.monotonic()
    # The machine is empty, so `--replace` is not needed.
    done = house.hearth("restore", "--key", backups.KEY, report["path"], timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    house.figures["a restore into an empty house, s"] = time.monotonic() - began

    assert house.hearth("secret", "show", chat.PASSWORD, "--plain").stdout == password
    assert house.shell("sha256sum /etc/hearth/pki/root.crt") == root
    again = chat.first(house)
    assert again.id == admin.id
    kept = again.request("GET", f"/api/v1/chats/{created['id']}")
    assert kept["title"] == MARKER
    began_at = report["began"][f"open_webui:{backups.DATA}"]
    rows, missing = backups.written(house)
    acknowledged = proof.before(began_at)
    assert len(acknowledged) > ROWS
    assert acknowledged <= set(rows)
    assert rows == list(range(len(rows)))
    assert missing == []
    house.figures["rows acknowledged before the copy"] = len(acknowledged)
    house.figures["rows in it"] = len(rows)
    backups.clean(house)
    again.request("DELETE", f"/api/v1/chats/{created['id']}")


def _backup_while_writing(house: House) -> tuple[backups.Proof, dict[str, Any]]:
    backups.begin_writing(house)
    backups.wait_for(house, ROWS + 1)
    done = house.hearth("backup", "--json", "--to", "/root/backups")
    proof = backups.end_writing(house)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["good"], report
    # The writer aims at fifty; a busy machine may allow fewer, and none may be lost.
    house.figures["commits a second while it was made"] = proof.per_s
    return proof, report


def _refuse_a_damaged_one(house: House, path: str) -> None:
    """A flipped bit in the middle is reported in one line, and nothing was built or created."""
    flip = "b = bytearray(open(0, 'rb').read()); b[len(b) // 2] ^= 1; open(1, 'wb').write(b)"
    house.shell(f'python3 -c "{flip}" < {path} > /root/damaged.age')
    done = house.hearth("restore", "--key", backups.KEY, "/root/damaged.age")
    assert done.returncode == 1
    assert "damaged or cut short" in done.stderr
    assert house.inside("test", "-e", f"{CLONE}/inventory/secrets.yml").returncode == 1
    assert "open-webui" not in house.shell("incus list -c n -f csv </dev/null")
