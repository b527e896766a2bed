"""Remove a service first, then the whole house, down to the empty machine.

The machine was listed when it was empty (test_build).
"""

import shlex

import pytest

from tests.lab.house import CLONE, NAME, House
from tests.lab.listing import differences, take, unexplained
from tests.lab.remote import Controller

pytestmark = pytest.mark.lab

SERVICE, INSTANCE, SITE = "open_webui", "open-webui", "chat.lan"
# The smoke tests after a removal, without the minutes of measuring speech.
UNMEASURED = '-k "not test_tts and not test_stt"'
# The files that name the service; after it is removed, no file of the house may.
MENTIONS = (
    f"grep -rlI -e {SERVICE} -e {INSTANCE} -e {SITE} /etc /var/lib/hearth --exclude-dir=receipt "
    # Other programs may mention a chat.
    "--exclude-dir=programs --exclude=before.json --exclude=house.json || true"
)
# The watcher's copy of the house has the oldest supported version of a package of that name.
WATCHED = (
    "import json\nhouse = json.load(open('/etc/hearth/house.json'))\n"
    "print(json.dumps(house | {'minimum_versions': {}}))"
)


def test_a_removed_service_leaves_its_data_and_nothing_else(controller: Controller) -> None:
    assert SITE in controller.shell("cat /etc/hosts")
    # How well the house speaks and listens was measured after the reboot.
    controller.shell(f"systemctl set-environment PYTEST_ADDOPTS='{UNMEASURED}'")
    output = controller.hearth("remove", SERVICE, "--yes")
    controller.shell("systemctl unset-environment PYTEST_ADDOPTS")
    assert output.returncode == 0, output.text[-6000:]
    assert controller.shell(MENTIONS) == ""
    watched = controller.shell(f"python3 -c {shlex.quote(WATCHED)}")
    assert [name for name in (SERVICE, INSTANCE, SITE) if name in watched] == []
    listed = "incus {} list --format csv </dev/null"
    assert f"{INSTANCE}," not in controller.shell(listed.format(""))
    # No other service uses this release.
    assert "debian-12" not in controller.shell(listed.format("image"))
    volumes = controller.shell("incus storage volume list hearth --format csv </dev/null")
    assert f"{INSTANCE}-var-lib-{INSTANCE}" in volumes
    listing = controller.shell("ls /var/lib/hearth/programs /var/lib/hearth/wanted")
    assert f"{SERVICE}\n" not in listing
    listed = controller.shell(f"cd {CLONE}; scripts/hearth secret list --json")
    assert f"consumer_{SERVICE}" not in listed
    # The next run from the controller does not bring it back; on request its data go, too.
    data = ("-e", f'{{"instances_remove_data": ["{SERVICE}"]}}')
    output = controller.ansible("site.yml", *data, "--tags", "instances")
    assert output.returncode == 0, output.text[-6000:]
    assert INSTANCE not in controller.shell(
        "incus list --format csv </dev/null; "
        "incus storage volume list hearth --format csv </dev/null"
    )


# The keys of the data and the files that people made, each with its digest.
KEPT = (
    f"sha256sum {CLONE}/inventory/secrets.yml /root/.config/hearth/vault-password {{made}}; "
    "incus storage volume list hearth --format csv --columns tn </dev/null | grep custom"
)
POOL = "/var/lib/incus/storage-pools/hearth/custom"
VOICE = f"{POOL}/default_kokoro-var-lib-kokoro/by-hand"


def removed(controller: Controller, *words: str, at: str) -> str:
    """Remove the whole house: kill the removal while it removes `at`, and run it again."""
    remove = f"scripts/hearth remove --all {' '.join(words)} --yes"
    controller.shell(
        f"cd {CLONE}; {remove} >/root/removal 2>&1 & removal=$!\n"
        f"until grep -q 'Remove {at}' /root/removal; do kill -0 $removal; sleep 0.1; done\n"
        "sleep 1; kill -KILL $removal; rm /root/removal"
    )
    output = controller.shell(f"cd {CLONE}; {remove}")
    assert output.rstrip().endswith("removed"), output
    return output


def test_a_removed_house_leaves_its_data_and_what_opens_them(controller: Controller) -> None:
    controller.shell(f"echo a voice of mine > {VOICE}")
    look = KEPT.format(made=VOICE)
    kept = controller.shell(look)
    assert "kokoro-var-lib-kokoro" in kept
    output = removed(controller, at="instance")
    for volume in ("kokoro-var-lib-kokoro", "ollama-var-lib-ollama", "whisper-var-lib-whisper"):
        assert f"keep    data  volume {volume} in Incus' pool" in output, output
    assert controller.shell(look) == kept
    # Nothing else of it runs, listens or is configured.
    listed = "incus {} list --format csv </dev/null"
    assert controller.shell(listed.format("") + "; " + listed.format("image")) == ""
    known = (
        "ls /etc/systemd/system; systemctl list-units --all --plain --no-legend; "
        "nft list ruleset; cat /etc/hosts"
    )
    assert "hearth" not in controller.shell(known).lower()
    assert "prohibit" not in controller.shell("ip rule")


def test_a_removed_house_leaves_the_machine_as_it_was(house: House, controller: Controller) -> None:
    removed(controller, "--data", at="packages")
    again = controller.shell(f"cd {CLONE}; scripts/hearth remove --all --data --yes")
    assert "nothing of Hearth is left here" in again, again
    left = unexplained(differences(house.bare, take(NAME)))
    assert left == [], "\n".join(left)
