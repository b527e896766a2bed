"""`hearth doctor` names exactly what is broken, heals what is safe, and finds nothing else.

Each round breaks several things that have nothing to do with each other: the findings must be
exactly theirs. What `--fix` heals is gone after it; the rest is repaired by hand.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import lab_machine as lab
from tests.lab import clocks
from tests.lab.breaking import Unit, until
from tests.lab.house import CLONE, NAME, ROOT, House
from tests.lab.test_lan import move

pytestmark = pytest.mark.lab

WITHIN_S = 10
WELL_S = 90
SLOWER = "HEARTH-HOUSE-SLOWER:"
PLANTED = f"{SLOWER}planted"
RUNS = 200
KEPT = "/root/doctor-kept"
PYTHON = f"cd {CLONE}; PYTHONPATH=. .venv/bin/python"
PROGRAMS = "/var/lib/hearth/programs"
PULLER = "incus exec ollama -- systemctl {} ollama-models </dev/null"
# Answers a health check after so many seconds, with a status; its unit starts it once.
FAKE = """
import http.server, sys, time
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(float(sys.argv[1]))
        self.send_response(int(sys.argv[2]))
        self.end_headers()
        self.wfile.write(b'{"status":"ok"}')
http.server.ThreadingHTTPServer(("0.0.0.0", 8880), Page).serve_forever()
"""
OTHER = "10.77.0.2"
RESOLVERS = "/run/systemd/resolve/resolv.conf"
# A DNS server behind a link of its own, as one on the LAN, which the machine is told of.
OTHER_DNS = f"""
ip netns add other
ip link add other0 type veth peer name other1 netns other
ip address add 10.77.0.1/30 dev other0; ip link set other0 up
ip -n other address add {OTHER}/30 dev other1; ip -n other link set other1 up
systemd-run --quiet --collect --unit=other-dns ip netns exec other /usr/sbin/dnsmasq \\
  --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --user=root \\
  --bind-interfaces --listen-address={OTHER} --address=/chat.lan/10.77.0.9
mkdir -p {Path(RESOLVERS).parent}; echo nameserver {OTHER} >> {RESOLVERS}
sleep 0.5
"""
NO_OTHER_DNS = """
systemctl stop other-dns 2>/dev/null || true
ip link delete other0 2>/dev/null || true; ip netns delete other 2>/dev/null || true
"""


def fake(seconds: float, status: int) -> str:
    """Return the script that replaces Kokoro's program until its next restart."""
    command = f"/usr/bin/python3 /run/fake.py {seconds} {status}"
    inside = (
        "mkdir -p /run/systemd/system/kokoro.service.d; cat > /run/fake.py; chmod 644 /run/fake.py;"
        f"printf '[Service]\\nExecStart=\\nExecStart={command}\\n'"
        " > /run/systemd/system/kokoro.service.d/fake.conf;"
        "systemctl daemon-reload; systemctl restart kokoro;"
        "rm -r /run/systemd/system/kokoro.service.d; systemctl daemon-reload; sleep 1"
    )
    argv = ["incus", "exec", "kokoro", "--", "/bin/sh", "-ec", inside]
    return f"{shlex.join(argv)} <<'END'\n{FAKE}\nEND"


def python(text: str) -> str:
    """Return the script that runs this in the project's environment."""
    return f"{PYTHON} - <<'END'\n{text}\nEND"


def kept(path: str) -> tuple[str, str]:
    """Return the scripts that keep a file, there or not, and that put it back."""
    place = f"{KEPT}{path.replace('/', '-')}"
    put = f"[ ! -e {place} ] || mv -f {place} {path}"
    none = f"[ ! -e {place}.none ] || rm -f {path} {place}.none"
    keep = f"if [ -e {path} ]; then cp -p {path} {place}; else touch {place}.none; fi"
    return keep, f"{put}\n{none}"


@dataclass(frozen=True, slots=True)
class Case:
    """One way to break a house: the keys of its findings, and whether `--fix` heals it."""

    keys: str
    broken: str
    undone: str
    heals: bool = False


def edited(key: str, path: str, change: str) -> Case:
    """Return a case that changes a file of the project, which is put back as it was."""
    keep, back = kept(path)
    return Case(key, f"{keep}\n{python(change)}", back)


def inventory(key: str, name: str, change: str) -> Case:
    """Return a case that changes `found`, the content of a file of the local inventory."""
    path = f"{CLONE}/inventory/local/{name}"
    text = (
        "import pathlib, yaml\nfrom datetime import datetime, timedelta, UTC\n"
        f"path = pathlib.Path('{path}')\n"
        "found = yaml.safe_load(path.read_text()) if path.exists() else {}\n"
        f"{change}\npath.write_text(yaml.safe_dump(found))"
    )
    return edited(key, path, text)


def vault(key: str, change: str) -> Case:
    """Return a case that changes the vault."""
    path = f"{CLONE}/inventory/secrets.yml"
    text = f"from hearth.project import current\nvault = current().vault\n{change}"
    return edited(key, path, text)


def puller(change: str) -> str:
    """Return the script that stops the puller and changes its status, as JSON in `found`."""
    text = (
        "import json, pathlib, datetime as d\n"
        'path = pathlib.Path("/var/lib/ollama/hearth/progress.json")\n'
        "found = json.loads(path.read_text()); now = d.datetime.now(d.UTC)\n"
        f"{change}\n"
        "path.write_text(json.dumps(found))"
    )
    argv = ["incus", "exec", "ollama", "--", "python3", "-c", text]
    return f"{PULLER.format('stop')}\n{shlex.join(argv)} </dev/null"


PULL = PULLER.format("start")
LOOP = "/run/systemd/system/hearth-trust.service.d"
UNIT = "/etc/systemd/system/hearth-trust.service"
MANIFEST = f"{PROGRAMS}/whisper_tiny/current/.hearth-manifest.json"
BACKUPS, TIMER = "/var/backups/hearth", "/etc/systemd/system/hearth-backup.timer"
IMAGE = "user.hearth.image"
FLOW = "'{ 10.140.30.14 . 10.140.30.30 . 8000 }'"
WATCH = "hearth-firewall-watch"
LOCK = "/run/hearth.lock"
MARK = f"HEARTH_RUN=$(printf %x-%x $(stat --format='%d %i' {LOCK}))"
SLEEP = "systemd-run --quiet --collect --unit"

PROGRAMS_ROUND = (
    Case(
        "HEARTH-SERVICE-DOWN:pipelines",
        Unit("pipelines").systemctl("stop"),
        Unit("pipelines").systemctl("start"),
        heals=True,
    ),
    Case(
        "HEARTH-SERVICE-HUNG:whisper",
        Unit("whisper").systemctl("kill --signal=STOP"),
        Unit("whisper").systemctl("kill --signal=CONT"),
        heals=True,
    ),
    Case(
        "HEARTH-SERVICE-LOOPS:trust",
        f"mkdir -p {LOOP}\n"
        f"printf '[Service]\\nExecStart=\\nExecStart=/bin/false\\n' > {LOOP}/x.conf\n"
        "systemctl daemon-reload; systemctl reset-failed hearth-trust; "
        "systemctl restart hearth-trust || true\n"
        "until [ $(systemctl show --property=NRestarts --value hearth-trust) -ge 3 ]; "
        "do sleep 0.2; done",
        f"rm -rf {LOOP}; systemctl daemon-reload; systemctl reset-failed hearth-trust; "
        "systemctl restart hearth-trust",
    ),
    Case("HEARTH-SERVICE-SLOW:kokoro", fake(3.5, 200), Unit("kokoro").systemctl("restart")),
)
BUILT_ROUND = (
    Case(
        "HEARTH-SERVICE-UNHEALTHY:kokoro",
        fake(0, 500),
        Unit("kokoro").systemctl("restart"),
        heals=True,
    ),
    Case(
        f"HEARTH-FILE-EDITED:{UNIT}",
        f"echo '# by hand' >> {UNIT}",
        f"sed -i '/^# by hand$/d' {UNIT}; systemctl daemon-reload",
        heals=True,
    ),
    Case(
        "HEARTH-IMAGE-UNFINISHED:/var/lib/hearth/images/.image-killed",
        "mkdir -p /var/lib/hearth/images/.image-killed",
        "rm -rf /var/lib/hearth/images/.image-killed",
        heals=True,
    ),
    Case(
        "HEARTH-RUN-UNFINISHED:",
        f"touch {LOCK}; chmod 600 {LOCK}; {SLEEP}=left --setenv={MARK}.1.1 sleep 600",
        "systemctl stop left 2>/dev/null || true",
        heals=True,
    ),
    Case(
        "HEARTH-MODEL-FAILED:llama3.1",
        puller(
            'found["models"]["llama3.1"] |= {"state": "failed", "reason": "no route", '
            '"failing_since": (now - d.timedelta(days=2)).isoformat()}\n'
            'found["updated_at"] = now.isoformat()'
        ),
        PULL,
        heals=True,
    ),
)
BY_HAND_ROUND = (
    Case(
        "HEARTH-MODEL-MISSING:tiny",
        f"mv {MANIFEST} {KEPT}.manifest",
        f"[ ! -e {KEPT}.manifest ] || mv {KEPT}.manifest {MANIFEST}",
    ),
    inventory(
        "HEARTH-VERSION-OLD:incus-base on the machine",
        "minimum_versions.yml",
        "found.setdefault('minimum_versions', {})['incus-base'] = {'oldest': '99'}",
    ),
    inventory(
        "HEARTH-BACKUP-OLD:",
        "machines.yml",
        "from hearth.backup.age import new_key\n"
        "machine = found.setdefault('machines', {}).setdefault('house', {})\n"
        "machine.setdefault('backup', {})['recipient'] = new_key()[1]",
    ),
    Case(
        f"HEARTH-BACKUP-UNREADABLE:{BACKUPS}/hearth-house-20250101T000000Z.tar.age",
        f"{kept(TIMER)[0]}; touch {TIMER}; touch --date='9 days ago' {TIMER}\n"
        f"mkdir -p {BACKUPS}; mv {BACKUPS} {BACKUPS}.kept; mkdir {BACKUPS}\n"
        f"echo torn > {BACKUPS}/hearth-house-20250101T000000Z.tar.age",
        f"{kept(TIMER)[1]}\n"
        f"[ ! -e {BACKUPS}.kept ] || {{ rm -rf {BACKUPS}; mv {BACKUPS}.kept {BACKUPS}; }}",
    ),
    Case(
        "HEARTH-IMAGE-OUTDATED:pipelines",
        f"incus config get pipelines {IMAGE} </dev/null > {KEPT}.image\n"
        f"incus config set pipelines {IMAGE}=hearth-debian-13-000000000000 </dev/null",
        f"[ ! -e {KEPT}.image ] || "
        f"incus config set pipelines {IMAGE}=$(cat {KEPT}.image) </dev/null",
    ),
    vault("HEARTH-SECRET-MISSING:pipelines_key", "vault.remove('pipelines_key')"),
    Case(
        f"HEARTH-DNS-OTHER-SERVER:{OTHER}",
        f"{kept(RESOLVERS)[0]}\n{OTHER_DNS}",
        f"{kept(RESOLVERS)[1]}\n{NO_OTHER_DNS}",
    ),
    Case(
        "HEARTH-RUNS-TWO:",
        f"touch {LOCK}; chmod 600 {LOCK}\nfor n in 1 2; do\n{SLEEP}=main$n sleep 600\n"
        "pid=$(systemctl show --property=MainPID --value main$n)\n"
        # A run is named after its process and when that started.
        "began=$(cut -d')' -f2 /proc/$pid/stat | cut -d' ' -f21)\n"
        f"{SLEEP}=task$n --setenv={MARK}.$pid.$began sleep 600\ndone",
        "systemctl stop main1 main2 task1 task2 2>/dev/null || true",
    ),
    Case(
        "HEARTH-CHECK-FAILED:ports",
        f"mv /usr/bin/ss {KEPT}.ss",
        f"[ ! -e {KEPT}.ss ] || mv {KEPT}.ss /usr/bin/ss",
    ),
)
FIREWALL_ROUND = (
    Case(
        "HEARTH-FIREWALL-GONE:",
        f"systemctl stop {WATCH}; nft delete table inet hearth",
        f"systemctl restart hearth-firewall; systemctl start {WATCH}",
        heals=True,
    ),
    Case(
        "HEARTH-DOCKER-BLOCKS:",
        "nft add table ip filter; nft add chain ip filter DOCKER-USER\n"
        "nft add chain ip filter FORWARD "
        "'{ type filter hook forward priority 0; policy drop; }'\n"
        "nft add rule ip filter FORWARD jump DOCKER-USER",
        "nft delete table ip filter 2>/dev/null || true",
        heals=True,
    ),
    Case(
        "HEARTH-FIREWALL-BLOCKS:",
        "nft add table inet other; nft add chain inet other forward "
        "'{ type filter hook forward priority 0; policy drop; }'",
        "nft delete table inet other 2>/dev/null || true",
    ),
    Case(
        "HEARTH-PORT-TAKEN:9180",
        "systemctl stop hearth-login\n"
        "systemd-run --quiet --collect --unit=taker "
        "python3 -m http.server 9180 --bind 127.0.0.1; sleep 0.5",
        "systemctl stop taker 2>/dev/null || true; systemctl start hearth-login",
    ),
    Case(
        "HEARTH-DISK-FULL:/var",
        "free=$(df --output=avail --block-size=1M /var | tail -1); mkdir -p /var/.filled\n"
        "fallocate --length $((free - 500))M /var/.filled/all",
        # The file system frees the space with its next commit.
        "rm -rf /var/.filled; sync --file-system /var",
    ),
)
PATHS_ROUND = (
    # Not beside a run, which explains it.
    Case(
        "HEARTH-COMMAND-UNFINISHED:/var/lib/hearth/backup/restoring",
        "mkdir -p /var/lib/hearth/backup; touch /var/lib/hearth/backup/restoring",
        "rm -f /var/lib/hearth/backup/restoring",
    ),
    Case(
        "HEARTH-CONNECTIONS:",
        f"systemctl stop {WATCH}; nft delete element inet hearth flows {FLOW}",
        f"nft add element inet hearth flows {FLOW}; systemctl start {WATCH}",
    ),
    Case(
        "HEARTH-MODELS-UNKNOWN:ollama",
        puller('found["updated_at"] = (now - d.timedelta(minutes=9)).isoformat()'),
        PULL,
        heals=True,
    ),
)
# Space that earlier tests have freed comes back minutes later, so it is taken again as it comes.
FILLING = """
mkdir -p /var/.filled
for ((n = 0;; n++)); do
  # The file system reports what is taken and freed with its next commit only.
  sync --file-system /var/.filled
  free=$(df --output=avail --block-size=1M /var | tail -1)
  # In steps: much at once may not be had, although it is reported as free.
  size=$((free > 3512 ? 512 : free - 3000))
  [ $free -lt 3500 ] || fallocate --length ${size}M /var/.filled/$n
  [ -e /var/.filled/done ] || [ $free -ge 3500 ] || touch /var/.filled/done
  sleep 0.2
done
"""
DISK_ROUND = (
    Case(
        "HEARTH-DISK-LOW:/var",
        f"{SLEEP}=filling /bin/bash -c {shlex.quote(FILLING.replace('$', '$$'))}\n"
        "for n in $(seq 100); do [ ! -e /var/.filled/done ] || exit 0; sleep 0.2; done; exit 1",
        "systemctl stop filling 2>/dev/null || true; rm -rf /var/.filled; sync --file-system /var",
    ),
)
INCUS_ROUND = (
    Case(
        "HEARTH-INCUS-DOWN:",
        "systemctl kill --kill-whom=main --signal=STOP incus.service",
        "systemctl kill --kill-whom=main --signal=CONT incus.service",
        heals=True,
    ),
)
ROUNDS = (
    *(PROGRAMS_ROUND, BUILT_ROUND, BY_HAND_ROUND, FIREWALL_ROUND),
    *(PATHS_ROUND, DISK_ROUND, INCUS_ROUND),
)


def findings(house: House, prefix: str = "") -> list[str]:
    """Return the keys that the doctor finds, within its time."""
    began = time.monotonic()
    done = house.inside("/bin/bash", "-c", f"{prefix} {CLONE}/scripts/hearth doctor --json")
    took = time.monotonic() - began
    house.figures["hearth doctor, s"] = max(took, house.figures.get("hearth doctor, s", 0))
    document = json.loads(done.stdout or "{}")
    assert "findings" in document, done.stdout + done.stderr
    assert took < WITHIN_S, f"{took:.1f} s"
    assert done.returncode == (1 if document["findings"] else 0), done
    for one in document["findings"]:
        print(f"{one['key']}: {one['evidence']}", flush=True)
    return keys(document)


def keys(document: Any) -> list[str]:
    """Return the keys of findings, in their order."""
    found = [str(one["key"]) for one in document["findings"]]
    # A lab shares its processor: that its figures vary is no fault of the house.
    return [key for key in found if not key.startswith(SLOWER) or key == PLANTED]


def well(house: House) -> None:
    """Wait until the doctor finds nothing, as after the start of a program."""
    end = time.monotonic() + WELL_S
    while found := findings(house):
        assert time.monotonic() < end, found


@contextmanager
def broken(house: House, cases: Iterable[Case]) -> Iterator[None]:
    """Break a house in several ways, for as long as the block takes."""
    with ExitStack() as undone:
        for case in cases:
            undone.callback(house.shell, case.undone)
            house.shell(case.broken)
        yield


def test_a_healthy_house_has_no_finding(house: House) -> None:
    house.wait_green()
    assert findings(house) == []


@pytest.mark.parametrize("cases", ROUNDS, ids=lambda cases: cases[0].keys)
def test_what_is_broken_is_found_and_nothing_else_and_healed(
    house: House, cases: tuple[Case, ...]
) -> None:
    wanted = {case.keys for case in cases}
    stays = {case.keys for case in cases if not case.heals}
    with broken(house, cases):
        assert {*findings(house)} == wanted
        if stays != wanted:
            done = house.hearth("doctor", "--fix", "--yes", "--json")
            print(done.stderr, flush=True)
            assert {*keys(json.loads(done.stdout))} == stays, done.stderr
            for key in wanted - stays:
                assert f"healed: {key}" in done.stderr
    well(house)


def test_a_wrong_clock_is_the_machines_where_all_programs_differ(house: House) -> None:
    preload = f"LD_PRELOAD={clocks.LIBRARY} FAKETIME=-2d FAKETIME_DONT_FAKE_MONOTONIC=1"
    with clocks.installed(house):
        assert findings(house, preload) == ["HEARTH-CLOCK-WRONG:"]


def test_an_address_that_changed_is_found(house: House) -> None:
    old = lab.address(NAME)
    new = f"{old.rpartition('.')[0]}.78"
    move(old, new)
    try:
        assert findings(house) == ["HEARTH-ADDRESS-CHANGED:"]
    finally:
        move(new, old)
    well(house)


def document(key: str, path: str, change: str) -> Case:
    """Return a case that changes `found`, the content of a file of the machine with JSON."""
    text = (
        f"import json, pathlib, time\npath = pathlib.Path('{path}')\n"
        "found = json.loads(path.read_text()) if path.exists() else {}\n"
        f"{change}\npath.parent.mkdir(parents=True, exist_ok=True)\n"
        "path.write_text(json.dumps(found))"
    )
    return edited(key, path, text)


def test_what_follows_from_nothing_else_is_found(house: House) -> None:
    cases = (
        vault(
            "HEARTH-KEY-REVOKED:consumer_hearth_verify",
            "vault.update({'consumer_hearth_verify': 'not-the-key-0123456789abcdefghij'})",
        ),
        document(
            "HEARTH-CANARY-FAILED:speech of kokoro",
            "/run/hearth-health/canary.json",
            "found = {'version': 1, 'made': time.time(), "
            "'made_boot_s': time.clock_gettime(time.CLOCK_BOOTTIME), 'results': [{"
            "'what': 'speech of kokoro', 'kind': 'speech', 'about': 'kokoro', 'state': 'failed', "
            "'ok': False, 'seconds': None, 'at': time.time(), 'text': 'no sound'}]}",
        ),
        document(
            PLANTED,
            "/var/lib/hearth/receipt/trend.json",
            "found = {'figures': [{'name': 'planted', 'judgement': 'worse', "
            "'evidence': '4 s now, 0.9 s to 1.1 s before'}]}",
        ),
        document(
            "HEARTH-SLOWER-THAN-PHYSICS:llama3.1",
            "/var/lib/hearth/receipt/bench-llm.json",
            "found = {'models': [{'name': 'llama3.1', 'match': 'slower', 'tokens_per_s': 1.0, "
            "'expected': {'hearth': {'low': 8.0, 'high': 12.0}}, 'causes': ['throttled']}]}",
        ),
    )
    # The canary must not replace what the test writes.
    folder = "/run/hearth-health"
    house.shell(f"chown root {folder}")
    try:
        with broken(house, cases):
            assert {*findings(house)} == {case.keys for case in cases}
    finally:
        house.shell(f"chown hearth-health {folder}")
    well(house)


def test_readings_that_a_lab_cannot_make_are_found(house: House) -> None:
    script = (ROOT / "tests/lab/readings.py").read_text(encoding="utf-8")
    argv = ["/bin/bash", "-c", f"{PYTHON} -"]
    done = lab.run(NAME, argv, stdin=script, timeout=120, check=True)
    found = json.loads(done.stdout)
    assert [name for name, rows in found.items() if rows[0]] == []
    _, later = found.pop("years later")
    # The intermediate ends, and each site's certificate long before it.
    assert "HEARTH-CERTIFICATE-ENDING:" in later
    assert {key.partition(":")[0] for key in later} == {"HEARTH-CERTIFICATE-ENDING"}
    assert {name: rows[1] for name, rows in found.items()} == {
        "out of memory": ["HEARTH-OUT-OF-MEMORY:kokoro"],
        "swap": ["HEARTH-SWAP:ollama"],
        "driver": ["HEARTH-GPU-DRIVER:cuda"],
        "device": ["HEARTH-GPU-ON-CPU:ollama"],
        "model": ["HEARTH-MODEL-ON-CPU:qwen3.5:4b"],
        "watcher": ["HEARTH-WATCHER-SILENT:watch"],
    }


def test_a_phone_sees_the_house(house: House) -> None:
    done = house.hearth("doctor", "--from-lan", "--json")
    document = json.loads(done.stdout)
    assert document["place"].startswith("the house itself, through its LAN address")
    assert [row for row in document["rows"] if not row["good"]] == []
    assert done.returncode == 0


# Plants a secret of its own in each place where secrets live, packs the archive, and searches it.
# Those that nobody has told Hearth are there as they would be: by a telling name.
PLANTING = r"""
import base64, json, pathlib, secrets, subprocess, tarfile
from urllib.parse import quote, quote_plus
from hearth.project import current

def inside(script, text=""):
    argv = ["incus", "exec", "kokoro", "--", "/bin/sh", "-ec", script]
    subprocess.run(argv, input=text, text=True, check=True, timeout=60)

def add(path, text):
    undo.append((path, path.read_bytes() if path.exists() else None))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + text)

project, undo = current(), []
places = ("vault", "credential", "drop-in", "journal", "caddyfile", "inventory", "log", "receipt")
planted = {place: "Cn4" + secrets.token_urlsafe(24) + "7b" for place in places}
secret_file = "/etc/hearth/credentials/kokoro/canary"
drop_in = "/run/systemd/system/kokoro.service.d/canary.conf"
kept = project.vault.path.read_bytes()
try:
    # A given one, with what people's passwords have and random ones do not.
    planted["vault"] += "/+ &'%"
    project.vault.update({"canary_given": planted["vault"]})
    folder = secret_file.rpartition("/")[0]
    inside(f"mkdir -p {folder}; umask 077; cat >{secret_file}", planted["credential"])
    inside(
        f"mkdir -p {drop_in.rpartition('/')[0]}; cat >{drop_in}; systemctl daemon-reload",
        f"[Service]\nEnvironment=PLAIN={planted['drop-in']}\n",
    )
    # Known ones also in the forms in which programs write them.
    known = planted["credential"].encode()
    written = (
        f"token={planted['journal']}",
        f"{planted['credential']} {known.hex()} {base64.b64encode(b'house:' + known).decode()}",
        f"GET /?k={quote_plus(planted['vault'])}&l={quote(planted['vault'], safe='')}",
    )
    inside(
        "cat >/run/canary.txt; systemd-run --quiet --wait --unit=kokoro-canary.service "
        "/bin/cat /run/canary.txt; rm /run/canary.txt; journalctl --sync",
        "\n".join(written) + "\n",
    )
    add(pathlib.Path("/etc/hearth/Caddyfile"), f"# header_up X-Api-Key {planted['caddyfile']}\n")
    more = f"# my_password: {planted['inventory']}\n"
    add(project.inventory / "local" / "services.yml", more)
    add(project.logs / "up-99991231-235959.log", f"Authorization: Bearer {planted['log']}\n")
    remarks = json.dumps({"remarks": [f"the password was {planted['receipt']}"]})
    add(pathlib.Path("/var/lib/hearth/receipt/canary.json"), remarks)
    made = pathlib.Path("/root/support.tar.gz")
    subprocess.run(
        [str(project.root / "scripts/hearth"), "support", "--to", str(made)],
        check=True, capture_output=True, timeout=200,
    )
    with tarfile.open(made) as archive:
        texts = {e.name: archive.extractfile(e).read().decode() for e in archive}
finally:
    for path, content in undo:
        path.unlink() if content is None else path.write_bytes(content)
    project.vault.path.write_bytes(kept)
    inside(f"rm -f {secret_file} {drop_in}; systemctl daemon-reload")
    pathlib.Path("/root/support.tar.gz").unlink(missing_ok=True)
# Each place was packed, or the search would prove nothing.
marks = {
    "drop-in": ("kokoro.service.txt", "Environment=PLAIN=[left out]"),
    "journal": ("kokoro.service.log", "token=[left out]"),
    "caddyfile": ("etc/hearth/Caddyfile", "X-Api-Key [left out]"),
    "inventory": ("local/services.yml", "my_password: [left out]"),
    "log": ("up-99991231-235959.log", "Authorization: [left out]"),
    "receipt": ("receipts/canary.json", "the password was [left out]"),
}
print([
    place for place, (name, mark) in marks.items()
    if not any(path.endswith(name) and mark in text for path, text in texts.items())
])

def forms(value):
    raw = value.encode()
    yield from (value, json.dumps(value)[1:-1], raw.hex(), raw.hex().upper())
    for coded in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield from (coded, coded.replace("%2F", "%2f").replace("%2B", "%2b"))
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        # The middle, wherever it starts in what is encoded.
        yield from (encode(b"x" * n + raw).decode()[4:-4] for n in range(3))

# Each value of the vault is searched for where it is, so that none leaves the machine.
values = {v for v in project.vault.values().values() if len(v) > 7}
assert len(values) > 5 and len(texts) > 30, (len(values), len(texts))
searched = [*planted.items(), *(("the house", value) for value in values)]
print(sorted({
    (place, name) for place, value in searched for form in forms(value)
    for name, text in texts.items() if form in text
}))
"""


def test_the_archive_for_a_helper_has_no_secret_of_the_house(house: House) -> None:
    # Each place is in it, without what was planted there.
    assert house.shell(python(PLANTING), timeout=400).splitlines() == ["[]", "[]"]
    well(house)


@pytest.mark.long
def test_a_healthy_house_has_no_finding_in_many_runs(house: House) -> None:
    house.wait_green()
    # One process for all: the looks are what is repeated.
    loop = python(
        "from hearth.doctor.examination import context_here, examine\n"
        "from hearth.project import current\n"
        f"for number in range({RUNS}):\n"
        "    found = examine(context_here(current()))\n"
        f"    found = [one for one in found if not one.key.startswith('{SLOWER}')]\n"
        "    if found: print(number, [(one.key, one.evidence) for one in found], flush=True)"
    )
    assert house.shell(loop, timeout=3600) == ""
    until(house, "all is up", f"{CLONE}/scripts/hearth status >/dev/null", WELL_S)
