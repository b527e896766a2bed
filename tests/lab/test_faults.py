"""What happens to a house: programs die, a disk fills up, memory runs out. It recovers by itself.

The outage as a client on the LAN measured it is printed, and kept in docs/failures.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator

import pytest

from hearth.clients import ClientError
from hearth.clients.chat import Person
from tests.lab import breaking, chat
from tests.lab.breaking import Unit
from tests.lab.house import House
from tests.lab.watching import speaker, watching

pytestmark = pytest.mark.lab

# A program starts again after a second; the slowest then take ten until they answer. On a busy
# machine they take many times that, which is no fault of theirs.
BACK_S = 120
HEALED_S = 30
# In 12 s a program that ends at once is started at most five times: delays of 1, 2, 3, 5, 9 s.
LOOP_S, STARTS = 12, 6
FULL_S = 5
LEFT_BYTES = 1 << 20
LONG = "The garden gate opens to the left, and nobody knows why it does. " * 6
DNSMASQ = "/etc/hearth/dnsmasq.conf"


def status(house: House) -> dict[str, str]:
    """Return the reason that `hearth status` prints for each row that is red."""
    rows = json.loads(house.hearth("status", "--json").stdout)["rows"]
    return {row["name"]: row["text"] for row in rows if not row["up"]}


def test_every_program_is_killed_at_once_and_all_are_back(house: House) -> None:
    before = house.processes()
    with watching(house, "every program killed") as seen:
        # Caddy finds none of its certificates, either; it must come back under the same root.
        wiped = "find /var/lib/hearth/caddy -mindepth 1 -delete"
        house.shell("\n".join([wiped, *(Unit(name).kill() for name in before)]))
        house.wait_green()
    assert breaking.restarted(before, house.processes()) == set(before)
    for name, seconds in seen.reds().items():
        house.figures[f"every program killed: {name} red, s"] = seconds
    assert max(seen.reds().values()) < BACK_S


def test_incus_is_killed_without_an_outage(house: House) -> None:
    with watching(house, "incusd killed") as seen:
        house.shell("systemctl kill --kill-whom=main --signal=KILL incus.service")
        back_s = breaking.until(house, "Incus answers", "timeout 2 incus list -f csv", BACK_S)
        house.wait_green()
    house.figures["Incus back after a kill, s"] = back_s
    assert seen.reds() == {}


def test_an_instance_is_killed_and_incus_starts_it_again(house: House) -> None:
    before = house.processes()
    with watching(house, "the instance of the gateway killed") as seen:
        breaking.end_instance(house, "litellm")
        house.wait_green()
    now = house.processes()
    untouched = set(before) - {"litellm"}
    assert {name for name in untouched if now[name] != before[name]} == set()
    assert 0 < seen.red("models") < BACK_S
    house.figures["the gateway's instance killed: models red, s"] = seen.red("models")
    assert set(seen.reds()) == {"models"}


@pytest.fixture
def wrong_settings(house: House) -> Iterator[None]:
    """Give the resolver a line that it does not understand, so that it ends at once."""
    house.shell(f"cp -p {DNSMASQ} {DNSMASQ}.kept\necho nonsense-by-hand >> {DNSMASQ}")
    yield
    house.shell(f"[ ! -e {DNSMASQ}.kept ] || mv {DNSMASQ}.kept {DNSMASQ}")


@pytest.mark.usefixtures("wrong_settings")
def test_a_crash_loop_is_red_with_its_reason_until_that_is_gone(
    house: House,
) -> None:
    unit = Unit("dnsmasq")
    with watching(house, "a crash loop", "models"):
        # Earlier failures have made its restart delay longer.
        house.shell(unit.systemctl("reset-failed"))
        began = int(unit.shown(house, "NRestarts")["NRestarts"])
        house.shell(unit.kill())
        time.sleep(LOOP_S)
        starts = int(unit.shown(house, "NRestarts")["NRestarts"]) - began
        assert 3 <= starts <= STARTS, starts
        reasons = status(house)
        assert set(reasons) == {"dnsmasq"}, reasons
        assert reasons["dnsmasq"].startswith("keeps exiting ("), reasons
        assert "bad option" in reasons["dnsmasq"], reasons
        assert DNSMASQ in reasons["dnsmasq"], reasons
        house.shell(f"mv {DNSMASQ}.kept {DNSMASQ}")
        repaired = time.monotonic()
        breaking.until(house, "the resolver runs", unit.systemctl("is-active"), HEALED_S)
        house.figures["a crash loop healed after its reason, s"] = time.monotonic() - repaired
        house.wait_green()


def test_out_of_memory_ends_one_program_and_no_other(house: House) -> None:
    unit = Unit("kokoro")
    before = house.processes()
    with (
        watching(house, "out of memory in one program") as seen,
        breaking.starved(house, unit, LEFT_BYTES) as group,
    ):
        # A text longer than any before it needs memory that the process never had. The client may
        # see no error: Debian's Caddy ends a truncated response as if it were whole.
        with contextlib.suppress(OSError):
            speaker(house, LONG)()
        assert group is None or breaking.kills(group) == 1
        house.wait_green()
    assert breaking.restarted(before, house.processes()) == {"kokoro"}
    assert set(seen.reds()) == {"TTS"}
    house.figures["out of memory: TTS red, s"] = seen.red("TTS")


def keep(person: Person, content: bytes) -> str:
    """Store a file in the chat as it is; return its ID."""
    given = {"file": ("notes.txt", content, "text/plain")}
    return str(person.request("POST", f"{chat.FILES}?process=false", files=given)["id"])


def test_a_full_disk_stays_readable_and_recovers(house: House, admin: Person) -> None:
    content = b"The garden gate opens to the left. " * 100_000
    kept = keep(admin, content)
    with watching(house, "the machine's disk full") as seen:
        with breaking.full(house, "/"):
            began = time.monotonic()
            with pytest.raises(ClientError) as refused:
                keep(admin, content)
            house.figures["a full disk: reported after, s"] = time.monotonic() - began
            print(f"a file for the chat: {str(refused.value)[:300]}", flush=True)
            # Data can be read, secrets too; a program that dies now waits for its turn.
            there = admin.send("GET", f"{chat.FILES}{kept}/content")
            assert there.content == content
            assert house.key()
            # From outside: Incus cannot write its database, and ends itself.
            os.kill(breaking.outer_pid(Unit("kokoro")), signal.SIGKILL)
            house.shell("systemctl kill --kill-whom=main --signal=KILL incus.service")
            time.sleep(FULL_S)
        freed = time.monotonic()
        again = keep(admin, content)
        house.figures["a full disk: written again after, s"] = time.monotonic() - freed
        breaking.until(house, "Incus answers", "timeout 2 incus list -f csv", HEALED_S)
        house.figures["a full disk: Incus back after, s"] = time.monotonic() - freed
        house.wait_green()
        house.figures["a full disk: all green after, s"] = time.monotonic() - freed
    assert admin.send("GET", f"{chat.FILES}{again}/content").content == content
    assert house.figures["a full disk: all green after, s"] < HEALED_S
    # Requests that only read never failed.
    assert set(seen.reds()) <= {"TTS"}
    whole(house)
    for number in (kept, again):
        admin.request("DELETE", f"{chat.FILES}{number}")


def whole(house: House) -> None:
    """Check that no file is torn: databases, the vault, and every record."""
    script = (
        "import glob, json, sqlite3\n"
        "for path in glob.glob('/var/lib/open-webui/**/*.db', recursive=True) + "
        "glob.glob('/var/lib/open-webui/**/*.sqlite3', recursive=True):\n"
        "    found = sqlite3.connect(f'file:{path}?mode=ro', uri=True).execute("
        "'pragma integrity_check').fetchall()\n"
        "    print(path, found)\n"
        "    assert found == [('ok',)], (path, found)\n"
    )
    found = house.shell(f'incus exec open-webui -- python3 -c "{script}" </dev/null')
    assert "webui.db" in found, found
    house.shell(
        "find /var/lib/hearth /etc/hearth -path '*/programs' -prune -o -name '*.json' -print0 |"
        " xargs -0 -n1 python3 -m json.tool >/dev/null"
    )
    assert house.key()
