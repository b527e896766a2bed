"""The suite of tests/engines in a machine with Incus, Podman and Docker, all from Debian."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import packages
from tests.lab.house import CLONE, House
from tests.lab.saved import HOUSE

pytestmark = [pytest.mark.lab, pytest.mark.long]

PACKAGES = ("podman", "crun", "netavark", "catatonit", "docker.io", "busybox-static")


@pytest.fixture(scope="module", autouse=True)
def _all_engines(house: House) -> Iterator[None]:
    """Install the engines that are missing, and afterwards restore the house from before."""
    try:
        packages.install(house, *PACKAGES)
        house.shell("systemctl start podman.socket docker.socket")
        yield
    finally:
        house.back_to(HOUSE)


def test_every_engine_conforms(house: House) -> None:
    done = house.inside(
        "/bin/bash",
        "-c",
        f"cd {CLONE}; exec .venv/bin/python -m pytest -rA -c hearth/smoke/pytest.ini --rootdir . "
        "tests/engines",
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    for name in ("incus", "podman", "docker"):
        assert f"test_input_and_output_are_whole[{name}]" in done.stdout, name
