"""From a bare machine to a receipt, while a big model is still on its way."""

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from hearth.project import Project
from tests import lab_machine as lab
from tests.lab.house import NAME, ROOT, House, ask
from tests.lab_machine import mock_upstreams
from tests.mock_upstreams import registry
from tests.mock_upstreams.__main__ import DEFAULT_CACHE

pytestmark = pytest.mark.lab

UP = [str(ROOT / "scripts/up"), "--lab", "--lab-name", NAME]
UP_S = 2400
BARE = "bare"
# The alias whose first model is the biggest of the lab, and how slowly that one comes.
SLOW_ALIAS, SLOW_MODEL, SLOW_BYTES_PER_S = "coder", "qwen2.5-coder:7b", 100_000
ALL_HERE_S = 180


@dataclass(frozen=True, slots=True)
class Said:
    """How a run ended, and its lines with the seconds after which each came."""

    returncode: int
    lines: list[tuple[float, str]]

    @property
    def text(self) -> str:
        """All that it said."""
        return "".join(line for _, line in self.lines)

    def when(self, words: str) -> float:
        """After how many seconds it said these words."""
        return next(seconds for seconds, line in self.lines if words in line)


def up(*words: str) -> Said:
    """Run `scripts/up --lab` from here, as a user would, and show what it says."""
    began, lines = time.monotonic(), []
    with subprocess.Popen([*UP, *words], cwd="/", stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        late = threading.Timer(UP_S, process.kill)
        late.start()
        for line in process.stdout:
            lines.append((time.monotonic() - began, line))
            sys.stdout.write(line)
        late.cancel()
    return Said(process.returncode, lines)


def test_a_preview_of_a_bare_machine_changes_nothing(house: House) -> None:
    with house.spending("a bare machine, and its preview", 1.0):
        lab.create(NAME)
        lab.save(NAME, BARE)
        # The first one installs what programs of Hearth need, as every `scripts/up` does.
        assert up("--check").returncode == 0
        before = house.state("/etc", "/var/lib")
        began = time.monotonic()
        done = house.up("--check")
        house.figures["preview of a bare machine, s"] = time.monotonic() - began
        assert done.returncode == 0, done.stdout + done.stderr
        after = house.state("/etc", "/var/lib")
        assert [tree for tree in before if before[tree] != after[tree]] == []
        said = done.stdout + done.stderr
        for instance in ("ollama", "litellm", "kokoro", "whisper"):
            assert said.count(f"would house: create {instance} from ") == 1, said
            assert f"{instance} is not there yet" in said, said
        # Without a card nobody plans what waits for one.
        assert "kokoro-gpu" not in said, said
        lab.restore(NAME, BARE)


def test_up_ends_with_a_receipt_while_models_are_coming(house: House) -> None:
    with house.spending("up, to the receipt", 6.0):
        machine = lab.load(NAME)
        mock_upstreams.serve(Project(ROOT), machine)
        _slow_down(machine)
        done = up()
    if done.returncode != 0:
        pytest.exit("scripts/up failed, so there is no house to test", returncode=1)
    house.figures["bare machine to its first answer, s"] = done.when(" answered after ")
    house.figures["bare machine to its receipt, s"] = done.lines[-1][0]
    assert "curl --cacert" in done.text
    receipt = json.loads((house.folder / "receipt" / "receipt.json").read_text())
    assert receipt["good"], receipt["summary"]
    assert receipt["figures"]
    pending = {v["about"]: v["percent"] for v in receipt["verdicts"] if v["outcome"] == "pending"}
    assert 0 < pending[SLOW_ALIAS] < 100, pending
    assert f"pending, {pending[SLOW_ALIAS]} %" in done.text


def _slow_down(machine: lab.Machine) -> None:
    """Let the mock upstreams hand out the biggest file of its registry at a crawl."""
    blobs = registry.storage_path(DEFAULT_CACHE).glob("docker/registry/v2/blobs/sha256/*/*/data")
    biggest = max(blobs, key=lambda path: path.stat().st_size)
    fault = {"kind": "slow", "contains": biggest.parent.name, "bytes_per_s": SLOW_BYTES_PER_S}
    httpx.post(
        f"{mock_upstreams.control(machine)}/faults", json=fault, timeout=5
    ).raise_for_status()


def test_the_download_goes_on_behind_it_and_arrives(house: House) -> None:
    with house.spending("the rest of the models", 1.0):
        first = _models(house)[SLOW_MODEL]
        assert first["state"] == "pulling", first
        assert 0 < first["completed_bytes"] < first["total_bytes"], first
        shown = house.hearth("models").stdout
        assert SLOW_MODEL in shown
        assert "%" in shown
        machine = lab.load(NAME)
        # A mock upstreams that ends and comes again at full speed: the download has to be resumed.
        mock_upstreams.stop(machine)
        mock_upstreams.serve(Project(ROOT), machine)
        deadline = time.monotonic() + ALL_HERE_S
        while any(model["state"] != "ready" for model in _models(house).values()):
            assert time.monotonic() < deadline, _models(house)
            time.sleep(1)


def _models(house: House) -> dict[str, dict[str, Any]]:
    said = json.loads(house.hearth("models", "--json").stdout)
    return {name: model for name, model in said["models"].items() if model["provider"] == "ollama"}


def test_a_device_gets_an_answer_from_ollama(house: House) -> None:
    near = ["--resolve", f"llm.lan:443:{lab.address(NAME)}"]
    root = str(house.folder / "root.crt")
    with house.spending("an answer", 0.3):
        answer = ask(None, root, "fast", house.key(), *near)
        assert answer.status == 200, answer
        assert answer.json["choices"][0]["message"]["content"].strip()
        assert f"x-hearth-model: {answer.json['model'].lower()}" in answer.head
        assert ask(None, root, "fast", None, *near).status == 401
        assert ask(None, root, "fast", "sk-wrong", *near).status == 401
        assert ask(None, None, "fast", None, *near).head == "curl: exit 60"
