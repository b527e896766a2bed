"""Locked versions obey inventory/minimum_versions.yml; `hearth verify` compares running ones."""

import re
from pathlib import Path

import pytest
from packaging.version import Version

from hearth.catalogue import load

ROOT = Path(__file__).parents[3]
MINIMUM_VERSIONS = load(ROOT / "inventory").minimum_versions
PYTHON = {
    name: minimum
    for name, minimum in MINIMUM_VERSIONS.items()
    if minimum.kind == "python" and minimum.oldest
}


def locked(name: str) -> dict[str, Version]:
    """Which version of a package each lock names."""
    found = {}
    for path in (ROOT / "requirements").glob("*.txt"):
        pinned = re.search(rf"^{re.escape(name)}==([^ ]+)", path.read_text(), re.MULTILINE)
        if pinned:
            found[path.name] = Version(pinned[1])
    return found


@pytest.mark.parametrize("name", sorted(PYTHON))
def test_no_lock_names_an_older_one(name: str) -> None:
    versions = locked(name)
    assert versions, f"no lock names {name}, so its minimum has no effect"
    oldest = Version(PYTHON[name].oldest or "")
    assert {at: str(one) for at, one in versions.items() if one < oldest} == {}


def test_the_most_trusted_programs_have_a_minimum() -> None:
    assert {name: minimum.kind for name, minimum in MINIMUM_VERSIONS.items()} == {
        "ollama": "source",
        "litellm": "python",
        "open-webui": "python",
        "incus-base": "debian",
        "caddy": "debian",
    }


def test_the_lab_lowers_only_the_minimum_of_ollama() -> None:
    lines = (ROOT / "tests/lab/inventory/minimum_versions.yml").read_text().splitlines()
    assert [line.strip() for line in lines if "oldest" in line] == ['ollama: {oldest: "0.34.4"}']
