"""Asks node whether JavaScript can be read, where there is a node."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from hearth_kokoro_patch.errors import PatchError

_NODE_S = 30


def node_reads(path: str, content: bytes) -> bool:
    """Return whether node was here and accepts this module; `False` only says: nobody looked.

    Raises:
        PatchError: node does not accept it, or does not answer.
    """
    node = shutil.which("node")
    if node is None:
        return False
    with tempfile.TemporaryDirectory(prefix="hearth-") as folder:
        # As a module, which is how the player loads it; by its own name node would guess.
        copy = Path(folder, "player.mjs")
        copy.write_bytes(content)
        try:
            done = subprocess.run(  # noqa: S603 - node from PATH, our own file
                [node, "--check", str(copy)],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_NODE_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PatchError(f"{path}: could not be checked: {node}: {error}") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "Error" in line]
        reason = said[0].strip() if said else f"exit code {done.returncode}"
        raise PatchError(f"{path}: `node --check` refuses what the patch would write: {reason}")
    return True
