"""The last play of site.yml: programs are installed while images are built, hosts go on alone.

Hearth's own actions are replaced by stand-ins that note when they start and end; the plays, the
roles and Ansible are real.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from hearth.catalogue import load
from hearth.catalogue.naming import hyphens

ROOT = Path(__file__).parents[3]
# Each waits, for a while, until the file that its name asks for exists: an order that the
# playbook does not allow ends late and is noted.
ACTION = """
import json, os, pathlib, time
from ansible.plugins.action import ActionBase

FOLDER = pathlib.Path(os.environ["NOTES"])
WAITS_FOR = json.loads(os.environ["WAITS_FOR"])

def note(text):
    with (FOLDER / "notes").open("a") as file:
        file.write(text + "\\n")
    (FOLDER / text.replace("/", "_")).touch()

class ActionModule(ActionBase):
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        name = f"{self._task.action.rpartition('.')[2]} {task_vars['inventory_hostname']}"
        note(f"{name} starts")
        wanted = WAITS_FOR.get(name)
        for _ in range(200):
            if wanted is None or (FOLDER / wanted).exists():
                break
            time.sleep(0.05)
        else:
            return result | {"failed": True, "msg": f"{name}: no {wanted!r} meanwhile"}
        note(f"{name} ends")
        if name == os.environ.get("FAILS"):
            return result | {"failed": True, "msg": "image debian/13: mmdebstrap: no network"}
        ready = name not in json.loads(os.environ.get("MISSING", "[]"))
        return result | {"changed": True, "did": [], "ready": ready, "digest": ""}
"""
STUBS = (
    "house_instances",
    "house_instance",
    "house_program",
    "house_pipelines",
    "service_converge",
)


def play(
    folder: Path,
    *options: str,
    waits: Mapping[str, str] | None = None,
    more: Mapping[str, str] | None = None,
    built: bool = False,
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the last play of site.yml; return the finished process, and the notes in their order."""
    site = yaml.safe_load((ROOT / "site.yml").read_text())
    facts = yaml.safe_load((ROOT / "ansible/playbooks/vars/reference.yml").read_text())
    machine = {**facts["machine_facts"], "built": built}
    given = {key: facts[key] for key in ("machine_accelerators", "machine_budget")}
    given |= {"machine_facts": machine}
    setting = {"ansible.builtin.set_fact": given}
    plays = [{"hosts": "machines", "gather_facts": False, "tasks": [setting | {"tags": "always"}]}]
    plays += [one for one in site if one["hosts"] == "machines:instances"]
    assert len(plays) == 2
    for name in STUBS:
        for kind, text in (("action", ACTION), ("modules", "")):
            (folder / kind).mkdir(exist_ok=True)
            (folder / kind / f"{name}.py").write_text(text)
    shutil.copytree(ROOT / "inventory", folder / "inventory", dirs_exist_ok=True)
    (folder / "inventory/secrets.yml").unlink(missing_ok=True)
    (folder / "roles").symlink_to(ROOT / "roles")
    (folder / "plays.yml").write_text(yaml.safe_dump(plays))
    plugins = ROOT / "ansible/plugins"
    (folder / "ansible.cfg").write_text(
        (ROOT / "ansible.cfg").read_text().replace("ansible/plugins", str(plugins))
        .replace(f"action_plugins = {plugins}/action", f"action_plugins = {folder}/action")
        .replace(f"library = {plugins}/modules", f"library = {folder}/modules")
        .replace("roles_path = roles", f"roles_path = {ROOT}/roles")
    )  # fmt: skip
    notes = folder / "notes"
    notes.mkdir()
    environment = os.environ | {"ANSIBLE_CONFIG": str(folder / "ansible.cfg"), **(more or {})}
    environment |= {"NOTES": str(notes), "WAITS_FOR": json.dumps(waits or {})}
    argv = [str(Path(sys.executable).with_name("ansible-playbook")), "plays.yml", *options]
    done = subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    listed = notes / "notes"
    return done, listed.read_text().splitlines() if listed.exists() else []


def steps(notes: list[str], host: str) -> list[str]:
    """Return the steps of a host in their order, each one that is repeated at once only once."""
    started = [note.split()[0] for note in notes if note.endswith(f" {host} starts")]
    return [step for step, _ in itertools.groupby(started)]


def test_programs_are_installed_and_services_converged_side_by_side(tmp_path: Path) -> None:
    # Each of them would wait for ever if the other step began only after its own had ended.
    waits = {
        "house_instances house": "service_converge litellm ends",
        "house_instance litellm": "house_instances house starts",
        "service_converge kokoro": "service_converge open-webui starts",
        "service_converge open-webui": "service_converge kokoro starts",
    }
    # Also while all other services wait for their instances.
    others = load(ROOT / "inventory").services.keys() - {"litellm"}
    waits |= {f"house_instance {hyphens(name)}": "house_instances house ends" for name in others}
    done, notes = play(tmp_path, waits=waits)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    # The programs are looked at once more with the service.
    order = ["house_program", "house_instance", "house_program", "service_converge"]
    assert steps(notes, "litellm") == order
    # What the first answer does not need is installed when the instances that it needs are there.
    assert steps(notes, "kokoro") == ["house_instance", *order]


def test_the_machine_begins_before_the_steps_that_wait_for_it(tmp_path: Path) -> None:
    # With one worker, a step that waited for a later one would never end.
    waits = dict.fromkeys(
        ("house_instance ollama", "house_instance litellm"), "house_instances house ends"
    )
    done, notes = play(tmp_path, "--forks", "1", waits=waits, built=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert notes[0] == "house_instances house starts"


def test_a_house_that_is_there_installs_nothing_beforehand(tmp_path: Path) -> None:
    done, notes = play(tmp_path, built=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    for host in ("litellm", "kokoro"):
        there = notes.index(f"house_instance {host} ends")
        assert f"house_program {host} starts" not in notes[:there]
        assert f"service_converge {host} ends" in notes[there:]


@pytest.mark.parametrize("failed", [False, True], ids=["planned", "failed"])
def test_an_instance_that_is_not_there_is_left_alone(tmp_path: Path, failed: bool) -> None:
    more = {"MISSING": '["house_instance litellm"]'}
    if failed:
        more["FAILS"] = "house_instances house"
    # The others have begun to wait when it fails.
    waits = {"house_instances house": "house_instance whisper starts"}
    done, notes = play(tmp_path, "--tags", "litellm,whisper", waits=waits, more=more)
    assert (done.returncode == 0) is not failed, done.stdout[-3000:]
    assert "service_converge litellm starts" not in notes
    assert "service_converge whisper ends" in notes
    # One reason, not one for each instance.
    assert done.stdout.count("FAILED!") + done.stdout.count("[ERROR]") <= 2 * failed, done.stdout


def test_no_instance_is_waited_for_when_its_machine_failed_before(tmp_path: Path) -> None:
    done, notes = play(tmp_path, "--limit", "instances")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert notes == []
