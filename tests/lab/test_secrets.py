"""A new secret of the house leaks nowhere, and a wrong one stops a run."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests import lab_machine as lab
from tests.lab import leaks
from tests.lab.house import CLONE, NAME, House
from tests.lab.leaks import Leaks

pytestmark = pytest.mark.lab

CREDENTIALS = "/etc/hearth/credentials/hearth-login"
PASSWORD = "/root/.config/hearth/vault-password"
VAULT = f"{CLONE}/inventory/secrets.yml"
# What a refused run leaves unchanged, with the packages; a restart would change the record.
KEPT = ("/etc", "/var/lib/hearth/converged", f"{CLONE}/inventory")
# All services that write a secret somewhere.
HOLDERS = "login,caddy,litellm,pipelines,open_webui"
INSTANCES = ["litellm", "pipelines", "open-webui", "ollama", "kokoro", "whisper"]
LEAKY = """
- hosts: localhost
  connection: local
  tasks:
    - name: Write a secret as a careless task would
      ansible.builtin.copy:
        content: "{{ lookup('file', '/root/planted') }}"
        dest: /root/planted.copy
        mode: "0600"
"""


@pytest.fixture(scope="module")
def searched(house: House) -> Leaks:
    """The traces of a consumer's new key, from the moment when it was given to its last use.

    One more value is leaked on purpose in every searched place: it has to be found there.
    """
    given = lab.run(
        NAME,
        [f"{CLONE}/scripts/hearth", "secret", "set", "consumer_guest"],
        stdin=f"canary{secrets.token_hex(16)}",
    )
    assert given.returncode == 0, given.stderr
    traces = leaks.of_the_house(house, planted=f"planted{secrets.token_hex(16)}")
    assert {"consumer_guest", "house_root_key", "house_password"} <= traces.needles.keys()
    with traces.watching() as seen, planted(house, traces):
        traces.read("a failing task", fail_with_everything_shown(house))
        traces.read("a run's output", show_everything(house, "site.yml", "--tags", HOLDERS))
        traces.read("a careless task", show_everything(house, "/root/leaky.yml"))
        traces.look_at_journals(INSTANCES)
        traces.look_at_files(INSTANCES)
    house.figures["looks at every process, per s"] = seen["per_s"]
    return traces


@contextmanager
def planted(house: House, traces: Leaks) -> Iterator[None]:
    """Leak one value everywhere until the block ends."""
    (value, *_) = traces.needles["planted"]
    house.shell(
        f"umask 077; printf %s {value} > /root/planted\n"
        f"cat > /root/leaky.yml <<'END'\n{LEAKY}END\n"
        "umask 022; cp /root/planted /var/tmp/planted; chmod 644 /var/tmp/planted\n"
        "cp /root/planted /var/lib/hearth/receipt/planted\n"
        f"logger {value}; incus exec litellm -- logger {value} </dev/null\n"
        f"incus exec litellm -- sh -c 'echo {value} > /var/tmp/planted' </dev/null\n"
        f"systemd-run --quiet --unit=planted-argv sh -c 'sleep 999; : {value}'\n"
        "systemd-run --quiet --unit=planted-environ --uid=65534 "
        f"--setenv=KEY={value} sleep 999"
    )
    try:
        yield
    finally:
        house.shell(
            "systemctl stop planted-argv planted-environ\n"
            "rm -f /root/planted /root/planted.copy /root/leaky.yml /var/tmp/planted "
            "/var/lib/hearth/receipt/planted\n"
            "incus exec litellm -- rm /var/tmp/planted </dev/null"
        )


def show_everything(house: House, playbook: str, *words: str, good: bool = True) -> str:
    """Run a playbook with Ansible's most verbose output; return what it printed."""
    command = f"ANSIBLE_NOCOLOR=1 .venv/bin/ansible-playbook {playbook} --diff -vvv"
    done = house.inside("/bin/bash", "-c", f"cd {CLONE}; {command} {' '.join(words)}", timeout=600)
    shown = done.stdout + done.stderr
    assert (done.returncode == 0) is good, shown[-4000:]
    assert "changed=" in shown
    return shown


def fail_with_everything_shown(house: House) -> str:
    """Let the task that writes the login's secrets fail, and return the output."""
    house.shell(f"mv {CREDENTIALS} {CREDENTIALS}.away; touch {CREDENTIALS}")
    try:
        shown = show_everything(house, "site.yml", "--tags", "login", good=False)
    finally:
        house.shell(f"rm {CREDENTIALS}; mv {CREDENTIALS}.away {CREDENTIALS}")
    # The task that had the secrets in hand is the one that failed.
    _, task, after = shown.partition("TASK [login : run | Converge ")
    assert task, shown[-3000:]
    assert "fatal: " in after, after[-3000:]
    return shown


PLACES = [
    "a careless task",
    "processes: cmdline",
    "processes: environ",
    "files of the machine: /var/tmp/planted",
    "files of litellm: /var/tmp/planted",
    "journal of the machine",
    "journal of litellm",
    "the receipt",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_planted_leak_is_found(searched: Leaks, place: str) -> None:
    assert "planted" in searched.names_at(place), sorted(searched.hits)


def test_no_secret_of_the_house_leaks(searched: Leaks) -> None:
    assert sorted(hit for hit in searched.hits if hit[0] != "planted") == []


@pytest.mark.usefixtures("searched")
def test_processes_were_looked_at_often_enough(house: House) -> None:
    # Twenty times a second, less what other programs take of two processors.
    assert house.figures["looks at every process, per s"] >= 10


@contextmanager
def instead(house: House, path: str, content: str | None) -> Iterator[None]:
    """Replace a file for a while, or remove it."""
    house.shell(f"mv {path} {path}.kept")
    try:
        if content is not None:
            house.shell(f"umask 077; cat > {path} <<'END'\n{content}\nEND")
        yield
        if content is None:
            house.shell(f"test ! -e {path}")
    finally:
        house.shell(f"mv {path}.kept {path}")


def refused(house: House) -> list[str]:
    """Run the house's command, and Ansible itself; both stop with the same line before a change."""
    before = house.state(*KEPT)
    up = house.up()
    site = house.inside(
        "/bin/bash", "-c", f"cd {CLONE}; ANSIBLE_NOCOLOR=1 .venv/bin/ansible-playbook site.yml"
    )
    after = house.state(*KEPT)
    assert [tree for tree in before if before[tree] != after[tree]] == []
    assert up.returncode != 0, up.stdout
    assert site.returncode != 0, site.stdout
    lines = [line.removeprefix("error: ") for line in up.stderr.splitlines() if "error: " in line]
    # Ansible breaks its lines anywhere.
    shown = " ".join((site.stdout + site.stderr).split())
    assert lines[0].rpartition("preflight")[2].rpartition("secrets: ")[2] in shown, shown[-3000:]
    return lines


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        (PASSWORD, None, "is missing: put this file back from a backup"),
        (PASSWORD, "not-the-password-of-this-vault", "does not open it"),
        (VAULT, "hearth_secrets: {}", "this is not an ansible-vault file"),
    ],
)
def test_a_lost_or_wrong_password_of_the_vault_stops_a_run(
    house: House, path: str, content: str | None, words: str
) -> None:
    with instead(house, path, content):
        (line, *_) = refused(house)
        assert words in line
        assert path in line


def test_a_short_and_a_missing_secret_stop_a_run_by_their_names(house: House) -> None:
    short = f"q{secrets.token_hex(3)}"
    script = (
        "import sys; from hearth.project import current; "
        f'current().vault.update({{"consumer_guest": "{short}"}})'
    )
    before, after = "services:\n", "services:\n  litellm: {secrets: {weather_key: given}}\n"
    house.shell(f"cp -a {VAULT} {VAULT}.kept; cd {CLONE}; .venv/bin/python -c '{script}'")
    house.edit("services.yml", before, after)
    try:
        lines = refused(house)
    finally:
        house.edit("services.yml", after, before)
        house.shell(f"mv {VAULT}.kept {VAULT}")
    assert "secret consumer_guest: it is too short" in lines[0], lines
    assert "secret weather_key: litellm needs it and it has no value" in lines[1]
    assert short not in "\n".join(lines)
