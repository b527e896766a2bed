"""Images are named by their recipe, built by one command, and fail in one line."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hearth import progress
from hearth.machine import images
from hearth.machine.images import ImageError, Recipe, recipe_of
from tests.unit.machine.samples import service

RECIPE = Recipe("debian/13", ("curl", "python3"), "10.140.30.1", "none")
APT = (
    'Acquire::https::Proxy "http://192.0.2.3:3142"\n'
    'Acquire::Languages "none"\n'
    'Acquire::Check-Valid-Until "false"\n'
)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What was run; apt-config answers, everything else does nothing and succeeds."""
    seen: list[list[str]] = []

    def run(argv: list[Any], **_: object) -> subprocess.CompletedProcess[str]:
        seen.append([str(word) for word in argv])
        return subprocess.CompletedProcess(argv, 0, APT if "apt-config" in argv[0] else "", "")

    def command(argv: list[str], *_: str, **__: str) -> None:
        seen.append(argv)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(images, "_run", command)
    return seen


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that puts a shell script in mmdebstrap's place."""

    def replace(script: str) -> None:
        monkeypatch.setattr(images, "apt_options", list)
        monkeypatch.setattr(images, "_command", lambda *_: ["/bin/sh", "-c", script])

    return replace


@pytest.mark.parametrize(
    "other",
    [
        Recipe("debian/12", ("curl", "python3"), "10.140.30.1", "none"),
        Recipe("debian/13", ("curl",), "10.140.30.1", "none"),
        Recipe("debian/13", ("curl", "python3"), "10.140.40.1", "none"),
        Recipe("debian/13", ("curl", "python3"), "10.140.30.1", "an office's"),
        Recipe("debian/13", ("curl", "python3"), "10.140.30.1", "none", version=99),
    ],
)
def test_another_recipe_has_another_name(other: Recipe) -> None:
    assert other.alias != RECIPE.alias
    assert RECIPE.alias.startswith("hearth-debian-13-")
    assert RECIPE.alias == Recipe("debian/13", ("curl", "python3"), "10.140.30.1", "none").alias


def test_a_record_with_paths_gets_a_gate_in_its_image() -> None:
    plain = recipe_of(service(packages=["curl"]), "10.140.30.1")
    gated = recipe_of(service(packages=["curl"], paths=["/v1/*"]), "10.140.30.1")
    assert set(gated.packages) - set(plain.packages) == {"caddy"}
    assert {"systemd", "python3", "curl"} <= set(plain.packages)
    assert list(plain.packages) == sorted(plain.packages)


def test_every_image_has_its_python() -> None:
    assert set(images.SUITES) == set(images.PYTHONS)


def test_the_image_fetches_packages_as_the_machine_does(commands: list[list[str]]) -> None:
    assert images.apt_options() == [
        'Acquire::https::Proxy "http://192.0.2.3:3142"',
        'Acquire::Check-Valid-Until "false"',
    ]


def test_one_command_builds_it_and_incus_gets_its_two_files(
    tmp_path: Path, commands: list[list[str]]
) -> None:
    metadata, root = images.build(RECIPE, tmp_path)
    command = " ".join(next(words for words in commands if "mmdebstrap" in " ".join(words)))
    assert "--include=curl,python3 " in command
    assert '--aptopt=Acquire::Check-Valid-Until "false"' in command
    assert "nameserver 10.140.30.1" in command
    # It speeds up the build, and no package of a running instance may be written that way.
    assert "--dpkgopt=force-unsafe-io" in command
    assert "sed -i /force-unsafe-io/d" in command
    # Programs are started by units of their roles, not by those of their packages.
    assert 'chroot "$1" dpkg-query --listfiles curl |' in command
    assert command.endswith(f"trixie {root}")
    with tarfile.open(metadata) as archive:
        stream = archive.extractfile("metadata.yaml")
        assert stream is not None
        assert json.load(stream)["properties"]["os"] == "debian"


@pytest.mark.parametrize(("available", "first"), [(8 << 30, "made"), (2 << 30, "kept")])
def test_with_enough_memory_it_is_built_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available: int, first: str
) -> None:
    monkeypatch.setattr(images, "apt_options", list)
    monkeypatch.setattr(images, "available_bytes", lambda: available)
    command = images._command(RECIPE, tmp_path / "root.tar")
    (tmp_path / "kept").touch()
    # What mmdebstrap would see, and what it would write.
    script = 'touch "$TMPDIR/made"; ls "$TMPDIR"'
    argv = [*command[: command.index("/usr/bin/mmdebstrap")], "/bin/sh", "-c", script]
    if os.geteuid() != 0:
        argv = ["/usr/bin/sudo", "--non-interactive", "--preserve-env=TMPDIR", *argv]
    done = subprocess.run(argv, env={"TMPDIR": str(tmp_path)}, capture_output=True, text=True)
    assert done.stdout.split()[0] == first, done.stderr
    # Nothing of it outlives the command.
    assert (tmp_path / "made").exists() is (first == "kept")


def test_an_unknown_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError) as caught:
        images.build(Recipe("debian/11", (), "10.140.30.1", ""), tmp_path)
    assert (
        str(caught.value)
        == "unknown image debian/11: write one of debian/12, debian/13, debian/forky"
    )


@pytest.mark.parametrize(
    ("stderr", "line"),
    [
        (
            "I: installing\nE: Unable to locate package curll\nI: cleaning up\n",
            "image debian/13: mmdebstrap: E: Unable to locate package curll",
        ),
        ("killed\n", "image debian/13: mmdebstrap: killed"),
        ("", "image debian/13: mmdebstrap: no output"),
    ],
)
def test_a_failed_build_reports_its_reason_in_one_line(
    tmp_path: Path, tool: Callable[[str], None], stderr: str, line: str
) -> None:
    tool(f"printf '%s' '{stderr}' >&2; exit 1")
    with pytest.raises(ImageError) as caught:
        images.build(RECIPE, tmp_path)
    assert str(caught.value) == line


def test_a_build_that_hangs_ends(
    tmp_path: Path, tool: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "BUILD_LIMIT_S", 0.1)
    tool("exec sleep 60")
    with pytest.raises(ImageError) as caught:
        images.build(RECIPE, tmp_path)
    assert str(caught.value) == "image debian/13 was not built in 0.1 s"


def test_a_build_reports_its_steps(
    tmp_path: Path, tool: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = progress.Reports()
    monkeypatch.setattr(progress, "_reports", reports)
    tool("printf 'I: installing packages...\nSetting up curl\nI: creating tarball...\n' >&2")
    images.build(RECIPE, tmp_path)
    assert [text for _, what, text in reports.read() if what == "image debian/13"] == [
        "mmdebstrap",
        "installing packages...",
        "creating tarball...",
        "",
    ]


def test_an_image_is_handed_over_under_its_name_and_leaves_no_folder(
    tmp_path: Path, commands: list[list[str]]
) -> None:
    images.make_image(RECIPE, tmp_path, [images.into_incus])
    handed = commands[-1]
    assert handed[:3] == ["/usr/bin/incus", "image", "import"]
    assert handed[-2:] == ["--alias", RECIPE.alias]
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_build_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".image-abc"
    (left / "deep").mkdir(parents=True)
    images.discard(left)
    images.discard(left)
    assert list(tmp_path.iterdir()) == []
