"""A house that is taken away again: a service first, then all of it, down to the bare machine.

On the machine of test_7_another_machine, which was listed when it was bare.
"""

import pytest

from tests.lab.another import Other
from tests.lab.house import CLONE, House
from tests.lab.listing import differences, take, unexplained

pytestmark = pytest.mark.lab

SERVICE, INSTANCE, SITE = "open_webui", "open-webui", "chat.lan"
# What speaks of the service after it is gone: nothing of the house's own.
SPEAKS = (
    f"grep -rlI -e {SERVICE} -e {INSTANCE} -e {SITE} /etc /var/lib/hearth --exclude-dir=receipt "
    # Other programs know that there can be a chat.
    "--exclude-dir=programs --exclude=before.json || true"
)


def test_a_service_that_is_gone_leaves_its_data_and_nothing_else(
    house: House, other: Other
) -> None:
    with house.spending("a service that goes", 1.6):
        assert SITE in other.shell("cat /etc/hosts")
        said = other.hearth("remove", SERVICE, "--yes")
        assert said.returncode == 0, said.text[-6000:]
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
        listed = other.shell(f"cd {CLONE}; scripts/hearth secret list --json")
        assert f"consumer_{SERVICE}" not in listed
        # The next run from the laptop does not bring it back; asked for, its data go, too.
        asked = ("-e", f'{{"instances_remove_data": ["{SERVICE}"]}}')
        said = other.outside("site.yml", *asked, "--limit", "house,localhost")
        assert said.returncode == 0, said.text[-6000:]
        assert INSTANCE not in other.shell(
            "incus list --format csv </dev/null; "
            "incus storage volume list hearth --format csv </dev/null"
        )


# What opens the data, and what people made: each file with its digest.
KEPT = (
    f"sha256sum {CLONE}/inventory/secrets.yml /root/.config/hearth/vault-password {{made}}; "
    "incus storage volume list hearth --format csv --columns tn </dev/null | grep custom"
)
POOL = "/var/lib/incus/storage-pools/hearth/custom"
VOICE = f"{POOL}/default_kokoro-var-lib-kokoro/by-hand"


def gone(other: Other, *words: str, at: str) -> str:
    """Remove the whole house: killed while it removes `at`, and said again."""
    remove = f"scripts/hearth remove --all {' '.join(words)} --yes"
    other.shell(
        f"cd {CLONE}; {remove} >/root/removal 2>&1 & removal=$!\n"
        f"until grep -q 'Remove {at}' /root/removal; do kill -0 $removal; sleep 0.1; done\n"
        "sleep 1; kill -KILL $removal; rm /root/removal"
    )
    said = other.shell(f"cd {CLONE}; {remove}")
    assert said.rstrip().endswith("removed"), said
    return said


def test_a_house_that_is_gone_leaves_its_data_and_what_opens_them(
    house: House, other: Other
) -> None:
    with house.spending("a house that goes without its data", 1.2):
        other.shell(f"echo a voice of mine > {VOICE}")
        look = KEPT.format(made=VOICE)
        kept = other.shell(look)
        assert "kokoro-var-lib-kokoro" in kept
        said = gone(other, at="instance")
        for volume in ("kokoro-var-lib-kokoro", "ollama-var-lib-ollama", "whisper-var-lib-whisper"):
            assert f"stays   data  volume {volume} in Incus' pool" in said, said
        assert other.shell(look) == kept
        # Nothing else of it runs, answers or is known.
        listed = "incus {} list --format csv </dev/null"
        assert other.shell(listed.format("") + "; " + listed.format("image")) == ""
        known = (
            "ls /etc/systemd/system; systemctl list-units --all --plain --no-legend; "
            "nft list ruleset; cat /etc/hosts"
        )
        assert "hearth" not in other.shell(known).lower()
        assert "prohibit" not in other.shell("ip rule")


def test_a_house_that_is_gone_leaves_the_machine_as_it_was(house: House, other: Other) -> None:
    with house.spending("a house that goes", 0.9):
        gone(other, "--data", at="packages")
        again = other.shell(f"cd {CLONE}; scripts/hearth remove --all --data --yes")
        assert "nothing of Hearth is left here" in again, again
        left = unexplained(differences(dict(other.bare), take(other.name)))
        assert left == [], "\n".join(left)
