"""Refuse rendered files that are not what is committed. Run after ansible/playbooks/render.yml."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What the reference inventory renders to; committed, so that a review shows what a change does.
RENDERED = ["incus", "caddy", "litellm", "compose"]


def git(*words: str) -> str:
    """Return what git says."""
    argv = ["git", "-C", str(ROOT), *words]
    return subprocess.run(  # noqa: S603 - fixed words
        argv, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def main() -> int:
    """Show every rendered file that differs, also one that git does not know yet."""
    changed = git("status", "--porcelain", "--untracked-files=all", "--", *RENDERED)
    if changed:
        print(f"{changed}{git('diff', '--', *RENDERED)}render again and commit what it wrote")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
