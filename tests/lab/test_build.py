"""From an empty machine to a receipt, while a big model is still being downloaded.

A house is built in one of two ways, which the commit chooses: by `scripts/up` on the machine
itself, without interruption; or over ssh, where the first run is killed and the next one goes on.
HEARTH_BUILD=direct or HEARTH_BUILD=ssh chooses one.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from hearth.project import Project
from tests import lab_machine as lab
from tests.kill.kills import SITE, chosen, run_killed
from tests.lab import remote
from tests.lab.house import NAME, ROOT, House, ask, up
from tests.lab.listing import take
from tests.lab.parts import commit
from tests.lab.saved import BARE, tag
from tests.lab_machine import mock_upstreams
from tests.lab_machine.house import clone
from tests.mock_upstreams import registry
from tests.mock_upstreams.__main__ import DEFAULT_CACHE

pytestmark = pytest.mark.lab

# The alias whose first model is the biggest of the lab; at this pace it outlasts the build.
SLOW_ALIAS, SLOW_MODEL, SLOW_S = "coder", "qwen2.5-coder:7b", 1200
READY_S = 180
# A running step is shown every four seconds; a machine without a free core prints it late.
SILENCE_S = 10
# A run on an empty machine has more events than this, so each of these kills happens.
EVENTS = 190
WAYS = ("direct", "ssh")


def way() -> str:
    """Return how the house is built at this commit."""
    chosen_way = os.environ.get("HEARTH_BUILD") or WAYS[int(commit()[:8], 16) % 2]
    print(f"\nthe house is built by HEARTH_BUILD={chosen_way}", flush=True)
    assert chosen_way in WAYS
    return chosen_way


@pytest.mark.bare
def test_a_preview_of_a_bare_machine_changes_nothing(house: House) -> None:
    machine = lab.create(NAME)
    mock_upstreams.serve(Project(ROOT), machine)
    clone(Project(ROOT), NAME)
    # The removal of the house has to restore this state at the end.
    house.bare = take(NAME)
    lab.save(NAME, BARE)
    # The preview installs what Hearth's programs need, as every `scripts/up` does.
    assert up("--check").returncode == 0
    before = house.state("/etc", "/var/lib")
    began = time.monotonic()
    done = house.up("--check")
    house.figures["preview of a bare machine, s"] = time.monotonic() - began
    assert done.returncode == 0, done.stdout + done.stderr
    after = house.state("/etc", "/var/lib")
    assert [tree for tree in before if before[tree] != after[tree]] == []
    output = done.stdout + done.stderr
    for instance in ("ollama", "litellm", "kokoro", "whisper"):
        assert output.count(f"would house: create {instance} from ") == 1, output
        assert f"{instance} does not exist yet" in output, output
    # Without a card, an instance that requires one is not planned.
    assert "kokoro-gpu" not in output, output
    lab.restore(NAME, BARE)


@pytest.mark.bare
def test_up_ends_with_a_receipt_while_models_are_downloaded(
    house: House, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _slow_down(lab.load(NAME))
    began = time.monotonic()
    if way() == "ssh":
        _build_over_ssh(house, tmp_path_factory.mktemp("controller"))
    done = up()
    if done.returncode != 0:
        pytest.exit("scripts/up failed, so there is no house to test", returncode=1)
    house.figures["bare machine to its receipt, s"] = time.monotonic() - began
    if way() == "direct":
        house.figures["bare machine to its first answer, s"] = done.when(" answered after ")
    silence, line = done.longest_silence
    house.figures["longest silence of scripts/up, s"] = silence
    assert silence < SILENCE_S, f"nothing for {silence:.1f} s after {line!r}"
    assert "curl --cacert" in done.text
    receipt = json.loads((house.folder / "receipt" / "receipt.json").read_text())
    assert receipt["good"], receipt["summary"]
    assert receipt["figures"]
    pending = {v["about"]: v["percent"] for v in receipt["verdicts"] if v["outcome"] == "pending"}
    assert 0 < pending[SLOW_ALIAS] < 100, pending
    assert f"pending, {pending[SLOW_ALIAS]} %" in done.text


def _build_over_ssh(house: House, folder: Path) -> None:
    """Kill a first run, and let the next one over ssh build the house."""
    controller = remote.make(folder)
    controller.send()
    killed = run_killed(NAME, chosen("a bare machine", EVENTS), SITE)
    house.figures["killed on a bare machine after, s"] = killed.took_s
    print(killed, flush=True)
    began = time.monotonic()
    output = controller.ansible("site.yml")
    house.figures["killed to built, over ssh, s"] = time.monotonic() - began
    assert output.returncode == 0, output.text[-6000:]
    # The controller's own task comes last: it reports that the run there changed something.
    assert output.changed[-1] == 1, output.text[-3000:]
    assert sum(output.changed[:-1]) >= 1, output.text[-3000:]


def _slow_down(machine: lab.Machine) -> None:
    """Let the mock upstreams send the biggest file of their registry slowly."""
    blobs = registry.storage_path(DEFAULT_CACHE).glob("docker/registry/v2/blobs/sha256/*/*/data")
    biggest = max(blobs, key=lambda path: path.stat().st_size)
    pace = biggest.stat().st_size // SLOW_S
    fault = {"kind": "slow", "contains": biggest.parent.name, "bytes_per_s": pace}
    url = f"{mock_upstreams.control(machine)}/faults"
    httpx.post(url, json=fault, timeout=5).raise_for_status()


@pytest.mark.bare
def test_the_download_goes_on_in_the_background_and_ends(house: House) -> None:
    first = _models(house)[SLOW_MODEL]
    assert first["state"] == "pulling", first
    assert 0 < first["completed_bytes"] < first["total_bytes"], first
    shown = house.hearth("models").stdout
    assert SLOW_MODEL in shown
    assert "%" in shown
    machine = lab.load(NAME)
    # Mock upstreams that stop and start again at full speed: the download has to be resumed.
    mock_upstreams.stop(machine)
    mock_upstreams.serve(Project(ROOT), machine)
    deadline = time.monotonic() + READY_S
    while any(model["state"] != "ready" for model in _models(house).values()):
        assert time.monotonic() < deadline, _models(house)
        time.sleep(1)


def _models(house: House) -> dict[str, dict[str, Any]]:
    status = json.loads(house.hearth("models", "--json").stdout)
    found = status["models"]
    return {name: model for name, model in found.items() if model["provider"] == "ollama"}


@pytest.mark.cached
def test_up_upgrades_the_house_of_an_earlier_commit(house: House) -> None:
    lab.restore(NAME, tag())
    began = time.monotonic()
    done = up()
    if done.returncode != 0:
        pytest.exit("scripts/up failed, so there is no house to test", returncode=1)
    house.figures["house of an earlier commit to its receipt, s"] = time.monotonic() - began
    receipt = json.loads((house.folder / "receipt" / "receipt.json").read_text())
    assert receipt["good"], receipt["summary"]
    house.wait_green()


def test_a_device_gets_an_answer_from_ollama(house: House) -> None:
    near = ["--resolve", f"llm.lan:443:{lab.address(NAME)}"]
    root = str(house.folder / "root.crt")
    answer = ask(None, root, "fast", house.key(), *near)
    assert answer.status == 200, answer
    assert answer.json["choices"][0]["message"]["content"].strip()
    assert f"x-hearth-model: {answer.json['model'].lower()}" in answer.head
    assert ask(None, root, "fast", None, *near).status == 401
    assert ask(None, root, "fast", "sk-wrong", *near).status == 401
    assert ask(None, None, "fast", None, *near).head == "curl: exit 60"
