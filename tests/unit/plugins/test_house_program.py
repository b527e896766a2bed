"""A third-party program is installed with the requested steps of our patch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import hearth_kokoro_patch
from hearth.sources import SourceError
from tests.mock_upstreams import kokoro_fastapi
from tests.unit.plugins.by_path import plugin

program: Any = plugin("action", "house_program")
ROOT = Path(__file__).parents[3]
SPLIT = "split_pattern="


def arguments(patch: list[str] | None, **more: Any) -> Any:
    params = {"name": "it", "patch": patch, "patch_by": "hearth_kokoro_patch", "links": None}
    return params | {"folder": None, "source": None} | more


def digest(patch: list[str]) -> str:
    return str(program.the_change(arguments(patch)).digest_with("archive"))


def test_the_steps_decide_what_is_installed() -> None:
    both, one = ["sentences", "yielding"], ["sentences"]
    assert len({digest(both), digest(one), digest([])}) == 3
    assert digest(["yielding", "sentences"]) == digest(["sentences", "yielding"])
    # Without a step it is upstream's own, whatever our patch is.
    assert digest([]) == program.the_change(arguments(None)).digest_with("archive")


def test_a_folder_is_installed_patched_and_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "PROGRAMS", tmp_path / "programs")
    mine = tmp_path / "mine"
    shutil.copytree(kokoro_fastapi.UPSTREAM, mine)
    done = program.from_folder(arguments(["sentences"], folder=str(mine)), write=True)
    loop = "api/src/inference/kokoro_v1.py"
    assert SPLIT in (done.path / loop).read_text()
    assert SPLIT not in (mine / loop).read_text()


def test_a_patched_folder_is_restored_if_no_step_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "PROGRAMS", tmp_path / "programs")
    mine, loop = tmp_path / "mine", "api/src/inference/kokoro_v1.py"
    shutil.copytree(kokoro_fastapi.UPSTREAM, mine)
    hearth_kokoro_patch.plan(mine).apply()
    done = program.from_folder(arguments([], folder=str(mine)), write=True)
    assert (done.path / loop).read_bytes() == (kokoro_fastapi.UPSTREAM / loop).read_bytes()
    assert SPLIT in (mine / loop).read_text()


def test_a_program_that_its_instance_would_not_see_is_rejected() -> None:
    program.check_visible("it_more", "it", ["it", "it_more"])
    words = "it would not see the program folder it_more: add it_more to `programs` of it in "
    with pytest.raises(SourceError, match=re.escape(words)):
        program.check_visible("it_more", "it", ["it"])


def test_an_invalid_step_or_upstream_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceError, match="'sentence' is not a step of the patch: "):
        program.the_change(arguments(["sentence"]))
    monkeypatch.setattr(program, "PROGRAMS", tmp_path / "programs")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("x")
    with pytest.raises(SourceError, match=r"^it: the source: holds no Kokoro-FastAPI"):
        program.from_folder(arguments(["sentences"], folder=str(tmp_path / "other")), write=True)
    assert not (tmp_path / "programs/it/current").exists()


# Ansible forks for each task, so what is set here holds there.
RUN = """
import sys
from pathlib import Path
from ansible.cli.playbook import PlaybookCLI
from hearth import paths
paths.DOWNLOADS = paths.PROGRAMS = Path("programs").resolve()
PlaybookCLI.cli_executor(sys.argv)
"""
MIRROR_PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  module_defaults:
    house_program: {name: it}
  tasks:
    - house_program:
        source: {name: it, version: "1", url: "https://example.org/a/it.tar"}
        mirrors:
          https://example.org/a/: http://me:topsecret@127.0.0.1:PORT/a/
          https://example.org/b/: https://oauthtoken@mirror.lan/b/
"""


@pytest.mark.parametrize("words", [["--check"], []], ids=["a preview", "a failed download"])
def test_a_mirrors_password_is_not_shown_by_ansible(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "inventory").mkdir()
    (tmp_path / "run.py").write_text(RUN)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as mirror:
        threading.Thread(target=mirror.serve_forever, daemon=True).start()
        play = MIRROR_PLAY.replace("PORT", str(mirror.server_address[1]))
        (tmp_path / "play.yml").write_text(play)
        done = subprocess.run(
            [sys.executable, "run.py", "-vvv", "-i", "localhost,", "play.yml", *words],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
            env={
                **os.environ,
                "ANSIBLE_ACTION_PLUGINS": str(ROOT / "ansible/plugins/action"),
                "ANSIBLE_NOCOLOR": "1",
                "HEARTH_PROJECT": str(tmp_path),
            },
        )  # fmt: skip
        mirror.shutdown()
    shown = done.stdout + done.stderr
    if words:
        assert done.returncode == 0, shown
        assert "changed=1" in shown
    else:
        assert done.returncode == 2, shown
        assert '"msg": "it 1 from http://127.0.0.1:' in shown
    assert "topsecret" not in shown
    assert "oauthtoken" not in shown
