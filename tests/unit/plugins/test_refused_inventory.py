"""Where the inventory is refused, Ansible by itself ends with the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BASE = ROOT / "tests/fixtures/catalogue/base"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("ansible", "roles", "site.yml", "services", "requirements"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "ansible.cfg", tmp_path)
    shutil.copytree(BASE, tmp_path / "inventory")
    return tmp_path


def play(checkout: Path) -> subprocess.CompletedProcess[str]:
    """List what site.yml would do to whom."""
    return subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "site.yml", "--list-hosts"],
        cwd=checkout, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "HOME": str(checkout), "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip


def test_a_good_inventory_has_a_machine_and_instances(checkout: Path) -> None:
    done = play(checkout)
    assert done.returncode == 0, done.stderr
    assert "house" in done.stdout
    assert "litellm" in done.stdout


def test_a_mistake_in_it_ends_the_run_with_its_line(checkout: Path) -> None:
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
    assert "is gone: put this file back from a backup" in " ".join(done.stderr.split())
