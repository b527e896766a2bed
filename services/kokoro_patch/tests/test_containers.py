"""Containers of three engines; the real ones are tried in tests/engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from hearth_kokoro_patch import PatchError, state
from hearth_kokoro_patch.containers import Container, find

from .conftest import NAMES, Release, contents
from .engines import Engines, fill, wanted

ENGINE, _, PLAYER = NAMES.values()


@pytest.mark.parametrize("engine", ["podman", "docker", "incus"])
def test_a_container_is_patched_and_restored(
    engines: Engines, release: Release, tmp_path: Path, engine: str
) -> None:
    inside = fill(engines.add(engine), release("v0.2.1"))
    (inside / ENGINE).chmod(0o640)
    before = contents(inside)
    there = find("speech", engines)
    assert there == Container(engines.made[engine], "speech", "/app")
    there.copy_in(wanted(there, tmp_path / "copy", "sentences", "player"))
    assert state(inside) == "applied"
    assert (inside / ENGINE).stat().st_mode & 0o777 == 0o640
    assert {n for n, c in contents(inside).items() if before.get(n) != c and n in before} == {
        *(ENGINE, PLAYER),
    }
    again = wanted(there, tmp_path / "copy", "sentences", "player")
    assert again.files == ()
    back = wanted(there, tmp_path / "copy")
    assert set(back.files) == {ENGINE, PLAYER}
    there.copy_in(back)
    assert contents(inside) == before


def test_an_engine_error_is_reported_in_its_own_words(
    engines: Engines, release: Release, tmp_path: Path
) -> None:
    podman = engines.add("podman")
    fill(podman, release("v0.8"))
    there = find("speech", engines)
    podman.refuses = "pull"
    with pytest.raises(PatchError, match="podman: read-only file system"):
        there.copy_out(tmp_path / "copy")


def test_the_engine_is_detected_or_must_be_named(engines: Engines, release: Release) -> None:
    with pytest.raises(PatchError, match="no podman, docker or incus answers on this machine"):
        find("speech", engines)
    fill(engines.add("podman"), release("v0.8"))
    incus = engines.add("incus")
    assert find("speech", engines).engine.name == "podman"
    with pytest.raises(PatchError, match="no container 'speach': podman: no such container speach"):
        find("speach", engines)
    fill(incus, release("v0.6"))
    with pytest.raises(
        PatchError, match="podman and incus both have a 'speech': choose with --engine"
    ):
        find("speech", engines)
    assert find("speech", [incus]).engine == incus


MOUNTS = {
    "a checkout": ({"/app/api": "/home/me/tts/api"}, "/app/api"),
    "one file": ({f"/app/{PLAYER}": "/home/me/AudioService.js"}, f"/app/{PLAYER}"),
    "everything": ({"/app": "/home/me/tts"}, None),
    "something else": ({"/app/api/src/voices": "/srv/voices"}, None),
}


@pytest.mark.parametrize("form", MOUNTS)
def test_a_mounted_checkout_is_detected(engines: Engines, release: Release, form: str) -> None:
    podman = engines.add("podman")
    fill(podman, release("v0.8"))
    mounts, seen = MOUNTS[form]
    podman.bound = mounts
    found = find("speech", engines).mounted
    assert found == (f"{seen} is mounted from {mounts[seen]}" if seen else None)
