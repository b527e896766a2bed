"""Debian's packages that a part of the lab needs in the house's machine."""

from __future__ import annotations

from tests.lab.house import House

_APT = "DEBIAN_FRONTEND=noninteractive apt-get --quiet --quiet --yes --no-install-recommends"


def install(house: House, *packages: str) -> None:
    """Install packages, with Docker's command if Docker is among them."""
    script = f"{_APT} update; {_APT} install {' '.join(packages)}"
    if "docker.io" in packages:
        # Its command is a package of its own in newer releases.
        script += f"; command -v docker >/dev/null || {_APT} install docker-cli"
    house.shell(script, timeout=300)
