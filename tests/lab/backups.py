"""A writer that keeps the chat's own database busy, and what the backup tests read and remove."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import dataclass

from hearth.project import Project
from tests.lab.house import CLONE, ROOT, House

DATA = "/var/lib/open-webui"
KEY = "/root/recovery-key"
GONE = "/root/gone"
_UNIT = "hearth-proof"
_LOG = "/var/tmp/hearth-proof"
_WRITTEN_S = 60
# In the order in which a service does it: the file, the row that names it, and, once SQLite has
# committed the row, the acknowledgement.
_WRITER = f"""
import os, sqlite3, time
os.makedirs("{DATA}/uploads/proof", exist_ok=True)
database = sqlite3.connect("{DATA}/webui.db", isolation_level=None, timeout=30)
database.execute("CREATE TABLE IF NOT EXISTS hearth_proof (id INTEGER PRIMARY KEY, file TEXT)")
log = open("{_LOG}", "w", buffering=1)
number, due = 0, time.monotonic()
while True:
    name = f"uploads/proof/{{number}}"
    with open(f"{DATA}/{{name}}", "w") as file:
        file.write(str(number))
    database.execute("INSERT INTO hearth_proof VALUES (?, ?)", (number, name))
    print(number, time.time(), file=log)
    number, due = number + 1, due + 0.02
    time.sleep(max(0, due - time.monotonic()))
"""  # noqa: S608 - our own words
_READER = f"""
import json, os, sqlite3
database = sqlite3.connect("{DATA}/webui.db")
rows = database.execute("SELECT id, file FROM hearth_proof ORDER BY id").fetchall()
missing = [file for _, file in rows if not os.path.isfile(f"{DATA}/" + file)]
print(json.dumps({{"rows": [row for row, _ in rows], "missing": missing}}))
"""  # noqa: S608 - our own words
_CLEANER = f"""
import os, shutil, sqlite3
database = sqlite3.connect("{DATA}/webui.db", timeout=30)
database.execute("DROP TABLE IF EXISTS hearth_proof")
database.commit()
shutil.rmtree("{DATA}/uploads/proof", ignore_errors=True)
if os.path.exists("{_LOG}"):
    os.unlink("{_LOG}")
"""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was acknowledged, and when, in seconds since 1970."""

    acknowledged: tuple[tuple[int, float], ...]

    def before(self, moment: float) -> set[int]:
        """Return the rows that were acknowledged before a moment."""
        return {number for number, at in self.acknowledged if at < moment}

    @property
    def per_s(self) -> float:
        """How many commits were acknowledged per second."""
        return (len(self.acknowledged) - 1) / (self.acknowledged[-1][1] - self.acknowledged[0][1])


def as_chat(house: House, program: str) -> str:
    """Run a Python program in the chat's instance as the chat's own user."""
    words = ["setpriv", f"--reuid={_owner(house)}", "--clear-groups", "python3", "-c", program]
    return house.shell(f"incus exec open-webui -- {shlex.join(words)} </dev/null")


def _owner(house: House) -> str:
    return house.shell(f"incus exec open-webui -- stat -c %u {DATA} </dev/null").strip()


def begin_writing(house: House) -> None:
    """Start a program that commits 50 times a second to the chat's database."""
    clean(house)
    words = [
        "systemd-run",
        "--quiet",
        "--collect",
        f"--unit={_UNIT}",
        f"--uid={_owner(house)}",
        "--",
    ]
    words += ["/usr/bin/python3", "-c", _WRITER]
    house.shell(f"incus exec open-webui -- {shlex.join(words)} </dev/null")


def wait_for(house: House, rows: int) -> None:
    """Wait until this many commits were acknowledged."""
    deadline = time.monotonic() + _WRITTEN_S
    while len(seen := _acknowledged(house).acknowledged) < rows:
        assert time.monotonic() < deadline, f"only {len(seen)} commits in {_WRITTEN_S} s"
        time.sleep(0.5)


def end_writing(house: House) -> Proof:
    """Stop the writer and return what was acknowledged to it."""
    house.shell(f"incus exec open-webui -- systemctl stop {_UNIT} </dev/null")
    return _acknowledged(house)


def _acknowledged(house: House) -> Proof:
    text = house.shell(f"incus exec open-webui -- cat {_LOG} </dev/null || :")
    pairs = (line.split() for line in text.splitlines())
    return Proof(tuple((int(number), float(at)) for number, at in pairs))


def written(house: House) -> tuple[list[int], list[str]]:
    """Return the stored rows, and the files that they name and that are missing."""
    found = json.loads(as_chat(house, _READER))
    return found["rows"], found["missing"]


def clean(house: House) -> None:
    """Remove what the writer wrote."""
    as_chat(house, _CLEANER)


def empty(house: House) -> None:
    """Remove from a house what its backup holds: the services with data, all secrets, the CA.

    The other instances stay: they hold nothing precious. docs/backup.md covers a machine that
    is empty.
    """
    kept = [
        one.instance
        for one in Project(ROOT).house().services.values()
        if any(volume.copy != "none" for volume in one.volumes)
    ]
    house.shell(
        f"mkdir -p {GONE}\n"
        f"for instance in {' '.join(kept)}; do\n"
        "volume=$(incus config device get $instance data0 source </dev/null)\n"
        "incus delete --force $instance </dev/null\n"
        'incus storage volume delete hearth "$volume" </dev/null; done\n'
        f"mv /etc/hearth/pki {GONE}/\n"
        f"mv {CLONE}/inventory/secrets.yml /root/.config/hearth/vault-password {GONE}/\n"
    )


def refill(house: House) -> None:
    """Generate a house's secrets again when nothing else did, for the tests after these."""
    house.shell(
        f"[ -e {CLONE}/inventory/secrets.yml ] || [ ! -e {GONE}/secrets.yml ] || "
        f"mv {GONE}/secrets.yml {CLONE}/inventory/ && "
        f"{{ [ ! -e {GONE}/vault-password ] || [ -e /root/.config/hearth/vault-password ] || "
        f"mv {GONE}/vault-password /root/.config/hearth/; }}\n"
        f"[ -e /etc/hearth/pki ] || [ ! -e {GONE}/pki ] || mv {GONE}/pki /etc/hearth/\n"
        f"rm -rf {GONE} {KEY} /root/backups /root/damaged.age"
    )
