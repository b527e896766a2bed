"""Real checkouts, where `HEARTH_FASTAPI_DIR` names a folder of them; none of their code is here.

git clone ... fastapi; git -C fastapi worktree add ../checkouts/v0.8.0 v0.8.0
HEARTH_FASTAPI_DIR=checkouts .venv/bin/pytest services/kokoro_patch/tests/test_releases.py -s
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hearth_kokoro_patch import STEPS, PatchError, plan, state, take_back

from .conftest import NAMES

HOME = os.environ.get("HEARTH_FASTAPI_DIR", "")
RELEASES = sorted(path for path in Path(HOME).iterdir() if path.is_dir()) if HOME else []


@pytest.mark.skipif(not HOME, reason="HEARTH_FASTAPI_DIR names no folder of checkouts")
@pytest.mark.parametrize("checkout", RELEASES or [Path("none")], ids=lambda path: path.name)
def test_a_real_release_is_patched_and_restored(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / checkout.name
    for name in NAMES.values():
        if (checkout / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(checkout / name, folder / name)
    before = {
        name: path.read_bytes() for name in NAMES.values() if (path := folder / name).exists()
    }
    if NAMES["kokoro_v1"] not in before:
        with pytest.raises(PatchError) as refused:
            plan(folder)
        print(f"| {checkout.name} | refused: {refused.value} |")
        return
    did = {step: plan(folder, frozenset({step})).files for step in STEPS}
    wanted = plan(folder)
    wanted.apply()
    assert state(folder) == "applied"
    assert plan(folder).files == ()
    for name in wanted.files:
        if name.endswith(".py"):
            compile((folder / name).read_bytes(), name, "exec", dont_inherit=True)
    assert take_back(folder) == wanted.files
    assert {name: (folder / name).read_bytes() for name in before} == before
    cells = [" + ".join(Path(name).name for name in did[step]) or "has it" for step in STEPS]
    print(f"| {checkout.name} | {' | '.join(cells)} |")
