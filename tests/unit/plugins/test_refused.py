"""Where the inventory or a secret is refused, Ansible by itself ends with the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hearth.machine.secrets import Vault

ROOT = Path(__file__).parents[3]
BASE = ROOT / "tests/fixtures/catalogue/base"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("ansible", "roles", "site.yml", "services", "requirements"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "ansible.cfg", tmp_path)
    shutil.copytree(BASE, tmp_path / "inventory")
    return tmp_path


def play(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a playbook; without words, list what site.yml would do to whom."""
    program = Path(sys.executable).with_name("ansible-playbook")
    here = {"HOME": str(checkout), "HEARTH_PROJECT": str(checkout), "ANSIBLE_NOCOLOR": "1"}
    return subprocess.run(
        [program, *(words or ("site.yml", "--list-hosts"))],
        cwd=checkout,
        env=os.environ | here,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_good_inventory_has_a_machine_and_instances(checkout: Path) -> None:
    done = play(checkout)
    assert done.returncode == 0, done.stderr
    assert "house" in done.stdout
    assert "litellm" in done.stdout


def test_an_error_in_the_inventory_ends_the_run_with_its_message(checkout: Path) -> None:
    (checkout / "inventory/local").mkdir()
    (checkout / "inventory/local/machines.yml").write_text("machines: {house: {domian: lan}}\n")
    done = play(checkout)
    assert done.returncode != 0, done.stdout
    words = " ".join(done.stderr.split())
    assert "inventory/local/machines.yml:1: house has no field domian; did you mean" in words
    assert "play #" not in done.stdout


def test_a_lost_password_ends_the_run_too(checkout: Path) -> None:
    (checkout / "inventory/secrets.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    done = play(checkout)
    assert done.returncode != 0, done.stdout
    assert "is missing: put this file back from a backup" in " ".join(done.stderr.split())


SECRETS = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - house_secrets:
        secrets: {house_password: random, cookie_secret: random, weather_key: given, cloud: given}
        owners:
          forecast: {secrets: {weather_key: given}}
          login: {secrets: {house_password: random}}
        domain: lan
"""


@pytest.mark.parametrize("words", [[], ["--check"]])
def test_a_missing_or_short_secret_ends_the_run_before_any_is_generated(
    checkout: Path, words: list[str]
) -> None:
    vault = Vault(checkout / "inventory/secrets.yml", checkout / ".config/hearth/vault-password")
    vault.update({"house_password": "swordfi"})
    (checkout / "secrets.play.yml").write_text(SECRETS)
    done = play(checkout, "secrets.play.yml", *words)
    assert done.returncode != 0
    shown = " ".join((done.stdout + done.stderr).split())
    assert "secret house_password: it is too short" in shown
    assert "secret weather_key: forecast needs it and it has no value" in shown
    assert "secret cloud" not in shown
    assert "swordfi" not in shown
    assert vault.names() == {"house_password"}


def test_a_missing_secret_is_reported_before_the_first_file_is_written() -> None:
    plays = yaml.safe_load((ROOT / "site.yml").read_text())
    tasks = [task for play in plays for task in play.get("tasks", [])]
    looks = [at for at, task in enumerate(tasks) if "house_secrets" in task]
    role = "ansible.builtin.import_role"
    notes = [
        at for at, task in enumerate(tasks) if task.get(role, {}).get("tasks_from") == "before.yml"
    ]
    first, *others = looks
    assert tasks[first]["check_mode"] is True
    assert first < min(notes) < min(others)
    # It looks at just what is made later.
    assert all(tasks[at]["house_secrets"] == tasks[first]["house_secrets"] for at in others)
