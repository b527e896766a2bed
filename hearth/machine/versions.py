"""Compare versions of programs with the minimum versions of the inventory."""

import subprocess

from packaging.version import Version

from hearth.catalogue.house import MinimumVersion


def is_older(version: str, minimum: MinimumVersion) -> bool:
    """Return whether a version is older than its minimum; packaging's InvalidVersion if it is none.

    Debian's own tool compares Debian's versions.
    """
    if minimum.oldest is None:
        return False
    if minimum.kind == "debian":
        argv = ["/usr/bin/dpkg", "--compare-versions", version, "lt", minimum.oldest]
        # No shell: a version comes from an instance.
        return subprocess.run(argv, check=False, timeout=10).returncode == 0  # noqa: S603
    return Version(version) < Version(minimum.oldest)
