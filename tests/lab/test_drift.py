"""Changes made by hand are found by the next run, which repairs only those."""

import json
from pathlib import Path

import pytest

from tests import lab_machine as lab
from tests.lab.house import FLUSH, NAME, SMOKE, House, changed

pytestmark = pytest.mark.lab

SCRIPT = Path(__file__).with_name("managed.py")
ALIASES, CADDYFILE = "/etc/litellm/aliases.json", "/etc/hearth/Caddyfile"
# On the machine itself, in addition to its files.
RULES = (
    "nft --stateless --terse list table inet hearth; nft list set inet hearth published; "
    "ip -brief -4 address show dev lo; "
    "sysctl net.ipv4.ip_forward fs.inotify.max_user_instances; cat /etc/hosts"
)

# The programs that the chat's running process sees, each with its current version.
SEEN = (
    "incus exec open-webui -- sh -c 'cd /proc/$(systemctl show --value --property MainPID "
    "open-webui)/root/opt/hearth && ls -d */current/. | cut -d/ -f1' </dev/null"
)

SEES_ONLY = f"{SMOKE} -k sees_only_its_own_programs --tb=line"


def everywhere(house: House, verb: str) -> dict[str, str]:
    """Look at (or spoil) everything that is managed, on the machine and in each instance."""
    names = house.shell("incus list --format csv --columns n </dev/null").split()
    found: dict[str, str] = {}
    for place in (None, *names):
        way = [] if place is None else ["incus", "exec", place, "--"]
        argv = [*way, "python3", "-", verb]
        done = lab.run(NAME, argv, stdin=SCRIPT.read_text(), timeout=120, check=True)
        found |= {f"{place or 'house'}: {k}": v for k, v in json.loads(done.stdout).items()}
    return found


def made(house: House) -> dict[str, str]:
    """Return the configuration that Incus holds of each instance, without its internal keys."""
    names = house.shell("incus list --format csv --columns n </dev/null").split()
    script = "; ".join(f"incus config show {name} </dev/null | grep -v volatile" for name in names)
    return {"rules": house.shell(RULES), "instances": house.shell(script)}


def test_one_run_repairs_and_restarts_only_what_was_changed(house: House) -> None:
    wanted, pids = everywhere(house, "look") | made(house), house.processes()
    # As in houses of earlier versions: the instance sees all programs.
    house.shell(
        "incus config device remove open-webui program-open_webui </dev/null\n"
        "incus config device add open-webui programs disk readonly=true "
        "source=/var/lib/hearth/programs path=/opt/hearth </dev/null\n"
    )
    checked = house.inside("/bin/bash", "-c", SEES_ONLY).stdout
    assert "open_webui can also read" in checked, checked
    assert "1 failed" in checked, checked
    house.shell(
        f"incus exec litellm -- sh -c 'echo {{}} > {ALIASES}' </dev/null\n"
        "incus exec kokoro -- sh -c 'echo Nice=5 >> /etc/systemd/system/kokoro.service' "
        "</dev/null\n"
        "incus exec pipelines -- systemctl stop pipelines </dev/null\n"
        "incus config set whisper limits.memory=1GiB limits.processes=99 </dev/null\n"
        # One setting would open egress, the others would loosen an instance.
        "incus profile add whisper default </dev/null\n"
        "incus config set litellm security.nesting=true </dev/null\n"
        f"echo '# by hand' >> {CADDYFILE}\n"
        # An instance has a new address only after a start.
        "incus config device set fetcher eth0 ipv4.address=10.140.30.200 </dev/null\n"
        # Its timer would have loaded the rules again before the run.
        f"systemctl stop hearth-firewall-watch; {FLUSH}\n"
    )
    counts = house.site()
    assert changed(counts) > 0, counts
    assert house.shell(SEEN).split() == ["open_webui"]
    found = everywhere(house, "look") | made(house)
    assert {key: found[key] for key in wanted if found.get(key) != wanted[key]} == {}
    now = house.processes()
    # Caddy reloads its file without ending, a limit is changed while the service runs, and
    # the resolver drops its cache when the rules are loaded.
    touched = {"litellm", "kokoro", "pipelines"}
    assert {name for name in pids if now[name] != pids[name]} == touched
    house.wait_green()
    # No rule is missing at that moment, and every page returns 502.
    house.shell("nft flush set inet hearth published")
    assert changed(house.site("--tags", "firewall")) > 0
    assert made(house) == {key: wanted[key] for key in ("rules", "instances")}


def test_one_run_repairs_every_file_and_starts_every_unit(house: House) -> None:
    wanted = everywhere(house, "look") | made(house)
    spoiled = everywhere(house, "spoil")
    files = [key for key, what in spoiled.items() if what == "edited"]
    units = [key for key, what in spoiled.items() if what == "stopped"]
    # At least as many as there are: a lost record would hide its files from this test.
    assert {key.partition(":")[0] for key in units} >= {"house", "ollama", "whisper"}
    assert len(files) > len(units) > 0
    house.shell(
        "sed -i '/^# BEGIN Hearth/,/^# END Hearth/s/lan$/example/' /etc/hosts\n"
        "for name in $(incus list --format csv --columns n </dev/null); do\n"
        "  incus config set $name boot.autostart=false </dev/null\n"
        "done\n"
        f"{FLUSH}; ip address delete 10.140.30.1/32 dev lo\n"
    )
    spoilt = everywhere(house, "look")
    assert [key for key in spoiled if spoilt[key] == wanted[key]] == []
    assert changed(house.site()) > 0
    found = everywhere(house, "look") | made(house)
    assert {key: found.get(key) for key in wanted if found.get(key) != wanted[key]} == {}
    assert found.keys() == wanted.keys()
    house.figures["files edited by hand and repaired in one run"] = len(files)
    counts = house.site()
    assert changed(counts) == 0, counts
