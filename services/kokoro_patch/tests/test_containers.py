"""Containers of three engines, whose command lines the fakes record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hearth_kokoro_patch import PatchError, state
from hearth_kokoro_patch.containers import ENGINES, Container, Engine, find

from .conftest import NAMES, Release, contents
from .engines import Engines, fill, wanted

ENGINE, _, PLAYER = NAMES.values()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_container_is_patched_and_restored(
    engines: Engines, release: Release, tmp_path: Path, engine: Engine
) -> None:
    inside = fill(engines.add(engine), release("v0.2.1"))
    (inside / ENGINE).chmod(0o640)
    before = contents(inside)
    there = find("speech")
    assert there == Container(engine, "speech", "/app")
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


_THERE = f"/opt/tts/{ENGINE}"
SHAPES_OF_CALLS = {
    "podman": [
        ["container", "inspect", "--format", "{{json .Mounts}}", "speech"],
        ["cp", f"speech:{_THERE}", "COPY"],
        ["cp", "-a", "COPY/.hearth-patch", "speech:/opt/tts/"],
        ["cp", "-a", "SENT", f"speech:{_THERE}"],
        ["exec", "--user", "0", "speech", "rm", "-rf", "/opt/tts/.hearth-patch"],
    ],
    "incus": [
        ["info", "speech"],
        ["file", "pull", "-r", f"speech{_THERE}", "COPY"],
        ["file", "push", "-r", "COPY/.hearth-patch", "speech/opt/tts/"],
        ["exec", "speech", "--", "stat", "-c", "%u %g %a", _THERE],
        [
            *("file", "push", "--uid", "UID", "--gid", "GID", "--mode", "644"),
            "SENT",
            f"speech{_THERE}",
        ],
        ["exec", "speech", "--", "rm", "-rf", "/opt/tts/.hearth-patch"],
    ],
}
SHAPES_OF_CALLS["docker"] = SHAPES_OF_CALLS["podman"]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_engines_get_the_usual_commands(
    engines: Engines, release: Release, tmp_path: Path, engine: Engine
) -> None:
    inside = fill(engines.add(engine), release("v0.8"), root="opt/tts")
    there = find("speech", root="/opt/tts/")
    copy = tmp_path / "copy"
    there.copy_in(wanted(there, copy, "sentences"))
    there.copy_in(wanted(there, copy))
    owner = (inside / ENGINE).stat()
    seen = engines.calls(engine)
    numbers = {"UID": str(owner.st_uid), "GID": str(owner.st_gid)}
    for shape in SHAPES_OF_CALLS[engine]:
        call = [numbers.get(word, word) for word in shape]
        # In this order: the record is there before the first file.
        while not _alike(call, seen.pop(0), copy):
            assert seen, call


def _alike(shape: list[str], made: list[str], copy: Path) -> bool:
    """Compare a call, in which the copy and a scratch file may have any name."""
    wanted = [word.replace("COPY", str(copy)) for word in shape]
    return len(wanted) == len(made) and all(
        a == b or (a == "SENT" and b.endswith("/sent")) or (a == str(copy) and b.startswith(a))
        for a, b in zip(wanted, made, strict=True)
    )


def test_an_engine_error_is_reported_in_its_own_words(
    engines: Engines, release: Release, tmp_path: Path
) -> None:
    home = engines.add("podman")
    fill(home, release("v0.8"))
    there = find("speech")
    (home / "refuse").write_text("cp")
    with pytest.raises(PatchError, match="podman: read-only file system"):
        there.copy_out(tmp_path / "copy")


def test_the_engine_is_detected_or_must_be_named(engines: Engines, release: Release) -> None:
    with pytest.raises(PatchError, match="this machine has no podman, docker or incus"):
        find("speech")
    fill(engines.add("podman"), release("v0.8"))
    incus = engines.add("incus")
    assert find("speech").engine == "podman"
    with pytest.raises(PatchError, match="no container 'speach': podman: no such container speach"):
        find("speach")
    fill(incus, release("v0.6"))
    with pytest.raises(
        PatchError, match="podman and incus both have a 'speech': choose with --engine"
    ):
        find("speech")
    assert find("speech", "incus").engine == "incus"


MOUNTS = {
    "a checkout": ([("bind", "/home/me/tts/api", "/app/api")], "/app/api"),
    "one file": ([("bind", "/home/me/AudioService.js", f"/app/{PLAYER}")], f"/app/{PLAYER}"),
    "everything": ([("bind", "/home/me/tts", "/app")], None),
    "a volume": ([("volume", "/var/lib/volumes/api", "/app/api")], None),
    "something else": ([("bind", "/srv/voices", "/app/api/src/voices")], None),
}


@pytest.mark.parametrize("form", MOUNTS)
@pytest.mark.parametrize("engine", ["podman", "docker"])
def test_a_mounted_checkout_is_detected(
    engines: Engines, release: Release, engine: Engine, form: str
) -> None:
    home = engines.add(engine)
    fill(home, release("v0.8"))
    mounts, seen = MOUNTS[form]
    words = [dict(zip(("Type", "Source", "Destination"), mount, strict=True)) for mount in mounts]
    (home / "mounts").write_text(json.dumps(words))
    found = find("speech").mounted
    assert found == (f"{seen} is mounted from {mounts[0][1]}" if seen else None)
