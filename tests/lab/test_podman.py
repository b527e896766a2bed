"""Some services in Podman beside others in Incus: they move with their data, and all holds."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest
import yaml

from hearth.clients.chat import Person
from tests import lab_machine as lab
from tests.kill import kills
from tests.lab import backups, breaking
from tests.lab.house import CLONE, NAME, OVERLAY, House, changed
from tests.lab.saved import HOUSE
from tests.lab.test_remove import UNMEASURED

pytestmark = [pytest.mark.lab, pytest.mark.long]

CONTAINED = ("ntfy", "whisper", "litellm", "open_webui")
NTFY = "10.140.30.42:2586"
BEFORE, MARKER = "A chat from before the move", "A chat in a container"
QUADLETS = "/etc/containers/systemd"
BACK_S, KILLED_WAIT_S = 60, 30
# Ten points of a run that moves a service, and of one that moves it back.
EVENTS = range(20, 190, 17)
# What a service leaves nowhere: in Podman, among the units, and among the files of the house.
TRACES = (
    "podman ps --all --noheading; podman network ls --noheading --filter label=hearth.service; "
    "podman volume ls --noheading --filter label=hearth.service; podman secret ls --noheading; "
    "podman images --noheading --filter label=hearth.service; "
    f"find {QUADLETS} /etc/hearth/containers /etc/hearth/credentials -name '*ntfy*'; "
    "systemctl list-units --all --plain --no-legend 'hearth-ntfy*'; ip -brief link show type bridge"
)


@pytest.fixture(scope="module", autouse=True)
def _back(house: House) -> Iterator[None]:
    yield
    house.back_to(HOUSE)


def describe(house: House, *names: str) -> None:
    """Give these services the word for Podman, and all others the one for Incus."""
    content = yaml.safe_load(house.inside("/bin/cat", OVERLAY, check=True).stdout)
    for name in CONTAINED:
        record = content["services"].setdefault(name, {})
        record.pop("runtime", None)
        if name in names:
            record["runtime"] = "podman"
        if not record:
            del content["services"][name]
    house.overlay(yaml.safe_dump(content))


class Messages:
    """Publishes messages for as long as a service moves; each that was accepted is to be kept."""

    def __init__(self, house: House) -> None:
        self._house, self._stop = house, threading.Event()
        self.accepted: set[str] = set()
        self._thread = threading.Thread(target=self._publish, daemon=True)

    def __enter__(self) -> Messages:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _publish(self) -> None:
        # One command for all, because each takes longer than a message.
        script = (
            "p=$(cat /root/ntfy-password); n=0; while [ ! -e /tmp/stop ]; do n=$((n+1)); "
            f"curl -sf -m 2 -u house:$p -d m$n http://{NTFY}/house >/dev/null && echo m$n; "
            "sleep 0.5; done"
        )
        done = self._house.inside("/bin/bash", "-c", script, timeout=600)
        self.accepted |= {*done.stdout.split()}


def kept(house: House) -> set[str]:
    """Return the messages that ntfy has."""
    # It limits how much one address may ask.
    script = f"curl -sfm 60 --retry 9 --retry-delay 5 -u house:$(cat /root/ntfy-password) 'http://{NTFY}/house/json?poll=1'"
    return {json.loads(line)["message"] for line in house.shell(script).splitlines()}


def test_services_move_with_everything_that_they_accepted(house: House, admin: Person) -> None:
    created = admin.request("POST", "/api/v1/chats/new", json={"chat": {"title": BEFORE}})
    password = house.hearth("secret", "show", "ntfy_password", "--plain").stdout.strip()
    put = ["/usr/bin/install", "-m", "600", "/dev/stdin", "/root/ntfy-password"]
    lab.run(NAME, put, stdin=password, check=True)
    house.shell("rm -f /tmp/stop")
    describe(house, *CONTAINED)
    began = time.monotonic()
    with Messages(house) as messages:
        time.sleep(3)
        house.site()
        time.sleep(3)
        house.shell("touch /tmp/stop")
    house.figures["four services move to Podman, s"] = time.monotonic() - began
    assert len(messages.accepted) > 20
    assert messages.accepted <= kept(house)
    assert admin.request("GET", f"/api/v1/chats/{created['id']}")["title"] == BEFORE
    listed = house.shell("incus list --format csv --columns n </dev/null").split()
    assert not {*CONTAINED} & {*listed}
    assert "ntfy-" not in house.shell("incus storage volume list hearth --format csv </dev/null")


def test_a_second_run_changes_nothing(house: House) -> None:
    house.wait_green()
    began = time.monotonic()
    counts = house.site()
    house.figures["no-change run with four services in Podman, s"] = time.monotonic() - began
    assert changed(counts) == 0, house.shell("cat /var/lib/hearth/last-run.json")


def test_a_mixed_house_keeps_every_promise(house: House) -> None:
    house.shell(f"PYTEST_ADDOPTS='{UNMEASURED}' {CLONE}/scripts/hearth verify", timeout=600)


def test_the_nightly_backup_brings_back_what_a_container_wrote(house: House, admin: Person) -> None:
    done = house.hearth("backup", "--new-key")
    assert done.returncode == 0, done.stderr
    house.shell(f"umask 077; cat > {backups.KEY} <<'END'\n{done.stdout}END")
    house.shell(f"cd {CLONE}; .venv/bin/ansible-playbook site.yml --tags backup", timeout=120)
    created = admin.request("POST", "/api/v1/chats/new", json={"chat": {"title": MARKER}})
    # Its unit may do less than root.
    house.shell("systemctl start hearth-backup.service", timeout=120)
    (path,) = house.shell("ls /var/backups/hearth/hearth-house-*").split()
    admin.request("DELETE", f"/api/v1/chats/{created['id']}")
    done = house.hearth("restore", "--key", backups.KEY, "--replace", path, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert admin.request("GET", f"/api/v1/chats/{created['id']}")["title"] == MARKER
    assert house.shell("podman ps --noheading --format '{{.Names}}' | grep -v ^hearth- || :") == ""


def test_a_killed_program_comes_back_and_its_lines_are_shown(house: House) -> None:
    house.shell("podman kill --signal KILL hearth-litellm")
    breaking.until(house, "litellm", "podman healthcheck run hearth-litellm", BACK_S)
    house.wait_green()
    assert "listens on" in house.hearth("logs", "whisper").stdout


def test_a_bad_image_is_shown_although_its_unit_never_fails(house: House) -> None:
    drop_in = f"{QUADLETS}/hearth-whisper.container.d/image.conf"
    house.shell(
        f"cp {drop_in} /tmp/image.conf; sed -i 's/sha256:.*/sha256:{'0' * 64}/' {drop_in}; "
        "systemctl daemon-reload; systemctl restart hearth-whisper || true"
    )
    deadline = time.monotonic() + BACK_S
    while True:
        shown = house.hearth("status", "--json").stdout
        row = next(row for row in json.loads(shown)["rows"] if row["name"] == "whisper")
        if "keeps exiting" in row["text"]:
            break
        assert time.monotonic() < deadline, row
        time.sleep(1)
    counts = house.converge("whisper")
    assert changed(counts) > 0
    house.wait_green()


def test_all_is_back_after_a_reboot(house: House) -> None:
    lab.reboot(NAME)
    house.wait_green()
    assert changed(house.site()) == 0, house.shell("cat /var/lib/hearth/last-run.json")


def test_the_old_one_comes_back_if_the_new_one_does_not_become_healthy(house: House) -> None:
    describe(house, *CONTAINED[1:])
    house.site()
    before = kept(house)
    broken = f"{QUADLETS}/hearth-ntfy.container.d/zz.conf"
    house.shell(
        f"mkdir -p {QUADLETS}/hearth-ntfy.container.d; "
        f"printf '[Container]\\nExec=/bin/false\\n' >{broken}"
    )
    describe(house, *CONTAINED)
    script = f"cd {CLONE}; ANSIBLE_NOCOLOR=1 exec .venv/bin/ansible-playbook site.yml"
    done = house.inside("/bin/bash", "-c", script, timeout=600)
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert "ntfy is not healthy in podman" in said, said[-3000:]
    assert "its old instance are as before" in said
    assert kept(house) >= before
    assert (
        house.shell(f"find {QUADLETS} -name '*ntfy*'; podman volume ls -q | grep ntfy || :") == ""
    )
    # Once the cause is gone, the next run moves it.
    house.site()
    assert kept(house) >= before
    house.wait_green()


@pytest.mark.long
def test_a_killed_move_is_finished_by_the_next_run(house: House) -> None:
    before = kept(house)
    for number, event in enumerate(EVENTS):
        names = CONTAINED if number % 2 else CONTAINED[1:]
        describe(house, *names)
        kind = kills.KINDS[number % 2]
        killed = kills.run_killed(NAME, kills.Kill(kind, str(event), number * 70))
        print(f"{killed.kill} in {killed.task!r}", flush=True)
        house.site()
        assert kept(house) >= before
        assert changed(house.site()) == 0
        house.wait_green()


def test_a_removed_service_leaves_nothing(house: House) -> None:
    describe(house, "ntfy")
    house.site()
    record = yaml.safe_load(house.inside("/bin/cat", OVERLAY, check=True).stdout)
    for name in ("alertmanager", "prometheus", "ntfy"):
        record["services"].setdefault(name, {})["present"] = False
    house.overlay(yaml.safe_dump(record))
    house.site("-e", '{"instances_remove_data": ["ntfy"]}')
    assert house.shell(TRACES).strip() == ""
