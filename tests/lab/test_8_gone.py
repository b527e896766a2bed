"""A house that is taken away again: a service first, then all of it, down to the bare machine.

On the machine of test_7_another_machine, which was listed when it was bare.
"""

import re

import pytest

from hearth.remove.record import without
from tests.lab.another import Other
from tests.lab.house import CLONE, House
from tests.lab.listing import differences, take

pytestmark = pytest.mark.lab

SERVICE, INSTANCE, SITE = "open_webui", "open-webui", "chat.lan"
RECORDS = f"{CLONE}/inventory/local/services.yml"
RUN = f"cd {CLONE}; ANSIBLE_NOCOLOR=1 exec .venv/bin/ansible-playbook site.yml"
# What speaks of the service after it is gone: nothing of the house's own.
SPEAKS = (
    f"grep -rlI -e {SERVICE} -e {INSTANCE} -e {SITE} /etc /var/lib/hearth --exclude-dir=receipt "
    # Other programs know that there can be a chat.
    "--exclude-dir=programs --exclude=before.json || true"
)
# What is not as it was, and why that is no trace of a house.
EXCEPTIONS = {
    r"/root/(hearth|\.ssh|\.cache/uv|\.config/uv)": "the project stays, with what brought it",
    r"/root d": "the folder that it lies in",
    r"/(etc/ssl/certs|usr/local/share/ca-certificates|etc/apt/apt\.conf\.d)": "the lab's own",
    r"/etc/(passwd|shadow|group|gshadow|subuid|subgid)- ": "Debian's copy before its last change",
    r"/etc/(ld\.so\.cache|\.pwd\.lock)": "Debian's index and lock",
    r"/var/(log|backups|cache|tmp)": "Debian's journals and caches",
    r"/var/lib/(apt|dpkg|systemd|ucf|wtmpdb)": "Debian's books of packages, timers and logins",
    r"/usr/\S*__pycache__": "what Python compiled of Debian's own modules",
}


def unexplained(lines: list[str]) -> list[str]:
    """Leave what no exception covers; what ran at the first boot only is no loss."""
    rules = [re.compile(rf"files: [+-] {rule}") for rule in EXCEPTIONS]
    return [
        line
        for line in lines
        if not any(rule.match(line) for rule in rules) and not line.startswith("living units: - ")
    ]


def test_a_service_that_is_gone_leaves_its_data_and_nothing_else(
    house: House, other: Other
) -> None:
    with house.spending("a service that goes", 1.2):
        assert SITE in other.shell("cat /etc/hosts")
        new = without(other.shell(f"cat {RECORDS}"), SERVICE)
        other.shell(f"cat > {RECORDS} <<'END'\n{new}END\n")
        # What `hearth remove` does, without the question and without the proof.
        other.shell(RUN)
        assert other.shell(SPEAKS) == ""
        listed = "incus {} list --format csv </dev/null"
        assert f"{INSTANCE}," not in other.shell(listed.format(""))
        # Nobody else uses this release.
        assert "debian-12" not in other.shell(listed.format("image"))
        volumes = other.shell("incus storage volume list hearth --format csv </dev/null")
        assert f"{INSTANCE}-var-lib-{INSTANCE}" in volumes
        assert f"{SERVICE}\n" not in other.shell(
            "ls /var/lib/hearth/programs /var/lib/hearth/wanted"
        )
        said = other.shell(f"cd {CLONE}; scripts/hearth secret list --json")
        assert f"consumer_{SERVICE}" not in said
        other.shell(
            f'{RUN} -e \'{{"instances_remove_data": ["{SERVICE}"]}}\' --limit house,localhost'
        )
        volumes = other.shell("incus storage volume list hearth --format csv </dev/null")
        assert INSTANCE not in volumes


def test_a_house_that_is_gone_leaves_the_machine_as_it_was(house: House, other: Other) -> None:
    with house.spending("a house that goes", 1.3):
        # Cut in the middle, as by somebody who lost patience; said again, it ends.
        cut = (
            f"cd {CLONE}; timeout --signal=KILL 8 scripts/hearth remove --all --data --yes || true"
        )
        other.shell(cut)
        said = other.shell(f"cd {CLONE}; scripts/hearth remove --all --data --yes")
        assert said.rstrip().endswith("removed"), said
        again = other.shell(f"cd {CLONE}; scripts/hearth remove --all --data --yes")
        assert "nothing of Hearth is left here" in again, again
        left = unexplained(differences(dict(other.bare), take(other.name)))
        assert left == [], "\n".join(left)
