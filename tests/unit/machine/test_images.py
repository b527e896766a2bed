"""Images are named by their recipe, built by one command, and fail in one line."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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

    monkeypatch.setattr(subprocess, "run", run)
    return seen


def failing(error: Callable[[list[str]], Exception]) -> Callable[..., Any]:
    def run(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if "apt-config" in argv[0]:
            return subprocess.CompletedProcess(argv, 0, "", "")
        raise error(argv)

    return run


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
    assert command.endswith(f"trixie {root}")
    with tarfile.open(metadata) as archive:
        stream = archive.extractfile("metadata.yaml")
        assert stream is not None
        assert json.load(stream)["properties"]["os"] == "debian"


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: str, line: str
) -> None:
    def run(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        code = 0 if "apt-config" in argv[0] else 1
        return subprocess.CompletedProcess(argv, code, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ImageError) as caught:
        images.build(RECIPE, tmp_path)
    assert str(caught.value) == line


def test_a_build_that_hangs_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def error(argv: list[str]) -> Exception:
        return subprocess.TimeoutExpired(argv, images.BUILD_LIMIT_S)

    monkeypatch.setattr(subprocess, "run", failing(error))
    with pytest.raises(ImageError) as caught:
        images.build(RECIPE, tmp_path)
    assert str(caught.value) == "image debian/13 was not built in 900 s"


def test_an_image_is_handed_over_under_its_name_and_leaves_no_folder(
    tmp_path: Path, commands: list[list[str]]
) -> None:
    images.import_image(RECIPE, tmp_path)
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
