"""Remove what tests brought to this machine: lab machines, caches, packages, environments.

Your settings and a house's secrets stay. Python's library alone; what scripts/test --clean calls.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHES = (".venv", ".hearth", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis")
APT_S = 900


def run(*argv: str) -> str:
    """Run a command; return its output, or end with one line on its failure."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(  # noqa: S603 - fixed words and names from dpkg
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=APT_S
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        sys.exit(f"error: {' '.join(argv[:3])}: {lines[-1]}")
    return done.stdout


def would_go(*options: str) -> set[str]:
    """Return the packages that apt would remove."""
    rows = (line.split() for line in run("apt-get", "--simulate", "-qq", *options).splitlines())
    return {row[1].partition(":")[0] for row in rows if row and row[0] in ("Purg", "Remv")}


def packages() -> list[str]:
    """Return the packages that came for the tests, with those that came along."""
    noted, brought = (ROOT / ".hearth" / name for name in ("packages-before", "brought"))
    if not noted.exists() or not brought.exists():
        return []
    before = set(noted.read_text().split())
    here = set(run("dpkg-query", "-W", "-f", "${Package}\n").split())
    ours = sorted((set(brought.read_text().split()) & here) - before)
    if not ours:
        return []
    # Packages that wait for `apt autoremove` for another reason are not ours to remove.
    return sorted(would_go("--auto-remove", "purge", *ours) - would_go("autoremove") - before)


def main() -> int:
    """Remove everything, and print each step."""
    if os.geteuid() != 0:
        sys.exit("error: tests ran as root, so this needs root: run `sudo scripts/test --clean`")
    python = ROOT / ".venv/bin/python"
    if python.exists():
        print("Remove the lab machines", flush=True)
        run(str(python), "-m", "tests.lab_machine", "destroy", "--all")
    if Path("/etc/hearth").exists():
        print("a house lives on this machine, so its packages stay: see `hearth remove --help`")
    elif doomed := packages():
        print(f"Remove {' '.join(doomed)}", flush=True)
        run("apt-get", "-qq", "-y", "purge", *doomed)
    print("Remove caches and environments", flush=True)
    for folder in [*ROOT.rglob("__pycache__"), *(ROOT / name for name in CACHES)]:
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree("/var/cache/hearth-lab", ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
