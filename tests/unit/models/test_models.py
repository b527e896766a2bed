"""Models and aliases, from the status of the puller or of an external server."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from hearth.catalogue import derive, load
from hearth.catalogue.house import House
from hearth.cli.status import overview_table, time_text
from hearth.clients.models import (
    AliasState,
    ModelState,
    Overview,
    alias_state,
    key_of,
    model_states,
    without,
)
from hearth.sources import programs

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
INVENTORY = Path(__file__).parents[3] / "inventory"


def model(name: str, **more: Any) -> SimpleNamespace:
    base: dict[str, Any] = {"name": name, "id": name, "provider": "ollama", "kind": "chat"}
    base |= {
        "local": True,
        "service": "ollama",
        "download_bytes": 1000,
        "digest": None,
        "program": None,
        "context": None,
        "capabilities": (),
    }
    return SimpleNamespace(**{**base, "usable": True, "reason": None, **more})


def house(*models: SimpleNamespace, runtime: str = "incus", **aliases: list[str]) -> House:
    service = SimpleNamespace(
        name="ollama", role="ollama", instance="ollama", runtime=runtime, url="http://there:11434"
    )
    made = {
        name: SimpleNamespace(name=name, members=tuple(members), offered=True, reason=None)
        for name, members in aliases.items()
    }
    return cast(
        House,
        SimpleNamespace(
            models={m.name: m for m in models}, aliases=made, services={"ollama": service}
        ),
    )


def look(of: House, age_s: float = 0, note: str = "", **entries: dict[str, Any]) -> Overview:
    updated_at = (NOW - timedelta(seconds=age_s)).isoformat(timespec="seconds")
    document = {"updated_at": updated_at, "note": note, "models": entries}

    def read(instance: str | None, path: str) -> str:
        assert (instance, path) == ("ollama", "/var/lib/ollama/hearth/progress.json")
        return json.dumps(document)

    return model_states(of, read, unreachable, NOW)


def unreachable(url: str) -> Any:
    raise OSError(f"{url} cannot be reached")


def entry(state: str, percent: int = 0, **more: Any) -> dict[str, Any]:
    sizes = {"completed_bytes": percent * 10, "total_bytes": 1000}
    return {"state": state, "percent": percent, **sizes, **more}


READY, COMING = entry("ready", 100), entry("pulling", 40, bytes_per_s=60.0)


def alias(overview: Overview) -> AliasState:
    return overview.aliases["fast"]


def test_a_downloading_model_has_percent_speed_and_remaining_time() -> None:
    overview = look(house(model("a")), a=COMING)
    assert (overview.models["a"].percent, overview.models["a"].eta_s) == (40, 10.0)


@pytest.mark.parametrize(
    ("a", "b", "text", "answered_by"),
    [
        (READY, COMING, "ready", "a"),
        (COMING, entry("waiting"), "pending, 40 %", None),
        (COMING, READY, "pending, 40 %", "b"),
        (entry("too_big", reason="needs more"), READY, "ready", "b"),
        (entry("too_big", reason="needs more"), COMING, "pending, 40 %", None),
        (entry("failed", 7, reason="cut"), READY, "pending, 7 %: a: cut", "b"),
        (
            entry("too_big", reason="needs more"),
            entry("missing"),
            "not offered: a: needs more; b: missing",
            None,
        ),
    ],
)
def test_the_state_of_an_alias_comes_from_its_members(
    a: dict[str, Any], b: dict[str, Any], text: str, answered_by: str | None
) -> None:
    state = alias(look(house(model("a"), model("b"), fast=["a", "b"]), a=a, b=b))
    assert (state.text, state.answered_by) == (text, answered_by)


def test_a_cloud_model_is_ready_or_has_a_reason() -> None:
    cloud = {"local": False, "service": None, "provider": "openrouter"}
    no_key = {**cloud, "usable": False, "reason": "no key"}
    overview = look(house(model("a", **cloud), model("b", **no_key), fast=["a"]))
    assert alias(overview).text == "ready"
    assert (overview.models["b"].state, overview.models["b"].reason) == ("unusable", "no key")


def test_without_the_pullers_status_all_models_wait_and_a_note_has_the_reason() -> None:
    def broken(instance: str | None, path: str) -> bytes:
        raise RuntimeError("the instance ollama\nis stopped")

    overview = model_states(house(model("a"), fast=["a"]), broken, unreachable, NOW)
    assert alias(overview).text == "pending, 0 %"
    assert overview.notes == (
        "ollama: no status of its model puller (the instance ollama is stopped)",
    )


def test_an_old_status_is_marked() -> None:
    assert look(house(model("a")), age_s=170, a=COMING).notes == ()
    (note,) = look(house(model("a")), age_s=600, a=COMING).notes
    assert "silent for 10 minutes" in note


def test_the_pullers_own_note_is_shown() -> None:
    assert look(house(model("a")), note="no list", a=READY).notes == ("ollama: no list",)


def test_a_compromised_puller_cannot_control_the_terminal_or_end_the_command() -> None:
    steers = "cut\x1b]0;mine\x07\x1b[2J\u202e\r\nnow"
    overview = look(house(model("a")), note=steers, a=entry("failed", reason=steers, digest=steers))
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(overview_table(overview))
    assert console.export_text().isascii()
    assert "\x1b" not in console.export_text()
    assert overview.models["a"].reason == "cut ]0;mine [2J now"
    for field, garbage in (
        ("percent", "much"),
        ("total_bytes", [1]),
        ("bytes_per_s", float("inf")),
    ):
        of = look(house(model("a"), fast=["a"]), a={**COMING, field: garbage})
        assert alias(of).text == "pending, 0 %"
        assert "no status of its model puller" in of.notes[0]


def test_an_external_server_has_models_ready_or_missing() -> None:
    lock = "sha256:" + "a" * 64
    of = house(model("a"), model("b"), model("c", digest=lock), runtime="external", fast=["b", "a"])
    listed = [{"name": "a:latest", "size": 5, "digest": "x"}, {"name": "C:LATEST", "digest": "bb"}]

    def ask(url: str) -> Any:
        assert url == "http://there:11434/api/tags"
        return {"models": listed}

    def nothing(instance: str | None, path: str) -> str:
        raise AssertionError("an external server has no instance")

    overview = model_states(of, nothing, ask, NOW)
    assert [m.state for m in overview.models.values()] == ["ready", "missing", "ready"]
    assert "ollama pull b" in overview.models["b"].reason
    assert "the lock has sha256:aaaa" in overview.models["c"].reason
    assert (alias(overview).text, alias(overview).answered_by) == ("ready", "a")


def test_an_external_server_that_does_not_respond_has_no_models() -> None:
    of = house(model("a"), runtime="external", fast=["a"])
    overview = model_states(of, str, unreachable, NOW)  # type: ignore[arg-type]
    assert alias(overview).text == "not offered: a: http://there:11434 does not answer"
    assert "gives no list of models" in overview.notes[0]


def transcribing(*names: str, runtime: str = "incus", **more: Any) -> House:
    """A house with an STT server whose models are installed by the machine."""
    fields = {"kind": "transcribe", "program": None, **more}
    if runtime == "incus":
        made = [model(name, **fields | {"program": f"whisper_{name}"}) for name in names]
    else:
        made = [model(name, **fields) for name in names]
    return house(*made, runtime=runtime, transcribe=list(names))


def test_models_from_the_machine_are_on_its_disk_or_come_with_the_next_run(
    tmp_path: Path,
) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "model.bin").write_bytes(b"w" * 5000)
    (tmp_path / "b" / "config.json").write_bytes(b"w" * 24)
    programs.write_manifest(tmp_path)

    def read(instance: str | None, path: str) -> str:
        assert instance is None, "the machine has it, whether or not the instance runs"
        if path != "/var/lib/hearth/programs/whisper_b/current/.hearth-manifest.json":
            raise OSError(f"cannot read {path}")
        return (tmp_path / programs.MANIFEST).read_text()

    overview = model_states(transcribing("a", "b"), read, unreachable, NOW)
    assert [(m.state, m.total_bytes) for m in overview.models.values()] == [
        ("waiting", 0),
        ("ready", 5024),
    ]
    assert "hearth up" in overview.models["a"].reason
    state = overview.aliases["transcribe"]
    assert (state.text, state.answered_by, state.waits_for) == ("pending, 0 %", "b", "a")
    # No puller fetches these, so no status of one is missing.
    assert overview.notes == ()


def test_a_model_without_an_alias_may_be_on_disk() -> None:
    of = transcribing("draft", usable=False, reason="no alias has it as a member")
    here, gone = (lambda *_: "{}"), (lambda *_: "")
    for read, reason in ((here, "on disk, and no alias"), (gone, "no alias")):
        state = model_states(of, read, unreachable, NOW).models["draft"]
        assert state.state == "unusable"
        assert state.reason.startswith(reason)


def test_an_external_stt_server_gets_its_own_requests() -> None:
    def ask(url: str) -> Any:
        assert url == "http://there:11434/v1/models"
        return {"data": [{"id": "b"}]}

    overview = model_states(transcribing("a", "b", runtime="external"), str, ask, NOW)  # type: ignore[arg-type]
    assert [m.state for m in overview.models.values()] == ["missing", "ready"]
    assert "ollama" not in overview.models["a"].reason


def test_the_reference_house_before_its_first_byte() -> None:
    of = derive(load(INVENTORY))
    overview = model_states(of, lambda instance, path: "", unreachable, NOW)
    assert overview.aliases["fast"].text == overview.aliases["transcribe"].text == "pending, 0 %"
    assert {m.state for m in overview.models.values()} <= {"waiting", "unusable"}


def test_the_table_and_the_json_output() -> None:
    able = model("a", context=8192, capabilities=("tools", "vision"))
    of = house(able, model("b"), fast=["a", "b"])
    overview = look(of, note="[no] markup", a=COMING, b=entry("failed", reason="[cut]"))
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(overview_table(overview))
    seen = console.export_text()
    assert "pulling, 40 %, 0.0 MB/s, 10 s left" in seen
    assert "8,192   tools, vision" in seen
    assert "[cut]" in seen
    assert "[no] markup" in seen
    read = json.loads(json.dumps(overview.as_json()))
    assert read["aliases"]["fast"]["text"] == "pending, 40 %"
    assert read["models"]["a"]["eta_s"] == 10.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (9.6, "10 s"), (119, "1 min"), (7400, "2 h 3 min"), (90_000, "1 d 1 h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


def test_keys_are_those_of_the_puller() -> None:
    assert key_of("registry.ollama.ai/library/Llama3.1") == "llama3.1:latest"


@pytest.mark.parametrize(
    ("since", "problem"),
    [
        (None, ""),
        ("2026-11-20T12:00:01+00:00", ""),
        (
            "2026-11-20T12:00:00+00:00",
            "the download of a has failed since 2026-11-20 12:00 UTC: a: cut",
        ),
        # An attacker inside the model server can write it, too.
        ("yesterday", ""),
    ],
)
def test_a_download_that_failed_for_a_day_is_overdue(since: str | None, problem: str) -> None:
    of = house(model("a"), model("b"), fast=["a", "b"])
    state = look(of, a=entry("failed", reason="cut", failing_since=since), b=READY).aliases["fast"]
    assert state.overdue(NOW) == problem


def test_unused_models_are_grouped_by_their_reason() -> None:
    of = house(
        model("a"),
        *(model(name, usable=False, reason="no key") for name in ("cloud-b", "cloud-c")),
        fast=["a"],
    )
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(overview_table(look(of, a=READY)))
    assert "not in use (no key): cloud-b, cloud-c" in console.export_text()


def test_a_member_whose_server_does_not_work_is_left_to_the_next() -> None:
    own = replace(derive(load(INVENTORY)), models={}, aliases={})
    local = model("a"), model("b", service="other")
    cloud = model("c", service=None, local=False, provider="anthropic")
    made = house(*local, cloud, fast=["a", "b", "c"], only=["a"], late=["b", "a"])
    of = replace(own, models=made.models, aliases=made.aliases)
    states = {"a": "ready", "b": "ready", "c": "cloud"}
    known = {n: ModelState(n, n, "", "chat", state) for n, state in states.items()}
    aliases = {name: alias_state(one, known) for name, one in of.aliases.items()}
    overview = Overview(known, aliases)
    assert without(overview, of, {"kokoro"}) is overview

    def answers(*down: str) -> dict[str, tuple[str, str | None, str]]:
        found = without(overview, of, down).aliases
        return {name: (one.state, one.answered_by, one.text) for name, one in found.items()}

    why = "a: ollama does not work"
    assert answers("ollama") == {
        "fast": ("instead", "b", f"instead of {why}"),
        "only": ("down", None, f"no answer: {why}"),
        "late": ("ready", "b", "ready"),
    }
    assert answers("ollama", "other")["fast"] == ("instead", "c", f"instead of {why}")
    # Everything goes through the gateway.
    assert answers("litellm")["fast"] == ("down", None, "no answer: a: litellm does not work")


def test_a_member_that_is_still_to_come_is_waited_for_though_its_server_is_down() -> None:
    of = house(model("a"), model("b"), fast=["a", "b"])
    known = look(of, a=COMING, b=READY).models
    found = alias_state(of.aliases["fast"], known, {"a": "x", "b": "x"})
    assert (found.state, found.answered_by, found.waits_for) == ("pending", None, "a")
