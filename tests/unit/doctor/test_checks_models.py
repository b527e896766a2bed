"""Each check of models and keys fires on a broken reading and is silent on a healthy one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hearth.clients import ClientError
from hearth.clients.endpoints import Answer
from hearth.clients.models import FAILED, MISSING, PULLING, READY, WAITING, ModelState, Overview
from hearth.doctor import checks_models as checks
from hearth.doctor.finding import Context
from hearth.machine.engine import Completed
from hearth.machine.secrets import Vault
from hearth.project import VERIFIER
from tests.unit.doctor.conftest import HOUSE, instance
from tests.unit.doctor.test_checks_services import printing, seen

GIB = 2**30
CARD = 'msg="inference compute" id=0 library=Vulkan name=Vulkan0 description="AMD Radeon 780M"'
CPU = 'msg="inference compute" id=cpu library=cpu name=cpu description=cpu'
LLVMPIPE = 'msg="inference compute" id=0 library=Vulkan name=Vulkan0 description="llvmpipe (LLVM)"'


def with_card(context: Context, kind: str, services: Sequence[str] = ("ollama",)) -> Context:
    """Give instances a card; the machine's own files are made by the test."""
    device = {"cuda": "gpu", "vulkan": "render0"}[kind]

    def incus(path: str) -> Any:
        return [
            instance(one.instance, devices={device: {}} if one.name in services else {})
            for one in HOUSE.services.values()
        ]

    return replace(context, incus=incus)


def render_node(root: Path) -> None:
    (root / "sys/class/drm/renderD128/device").mkdir(parents=True)
    (root / "drivers/amdgpu").mkdir(parents=True)
    (root / "sys/class/drm/renderD128/device/driver").symlink_to(root / "drivers/amdgpu")
    # Without its device: the watcher's own /dev has none.


def nvidia(root: Path, module: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("dev", "proc/driver/nvidia", "usr/lib/x86_64-linux-gnu"):
        (root / path).mkdir(parents=True)
    (root / "dev/nvidia0").touch()
    text = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {module}  Thu\n"
    (root / "proc/driver/nvidia/version").write_text(text)
    (root / f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{library}").touch()


@pytest.mark.parametrize(
    ("log", "wanted"),
    [
        (CARD, []),
        ("", []),
        (CPU, [("HEARTH-GPU-ON-CPU", "ollama")]),
        (LLVMPIPE, [("HEARTH-GPU-ON-CPU", "ollama")]),
    ],
)
def test_a_service_that_computes_on_the_processor_is_found(
    healthy: Context, log: str, wanted: list[Any]
) -> None:
    render_node(healthy.root)
    context = replace(with_card(healthy, "vulkan"), execute=printing(f"{log}\n"))
    assert seen(checks.cards(context)) == wanted


def test_speech_without_its_card_is_found_by_its_own_status(
    healthy: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia(healthy.root, "550.1", "550.1", monkeypatch)
    context = with_card(healthy, "cuda", ["whisper"])
    device = "cuda"
    context = replace(context, fetch=lambda url: {"device": device})
    assert seen(checks.cards(context)) == []
    device = "cpu"
    assert seen(checks.cards(context)) == [("HEARTH-GPU-ON-CPU", "whisper")]


def test_a_driver_that_does_not_work_is_found(
    healthy: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = replace(with_card(healthy, "vulkan"), execute=printing(CARD))
    (found,) = checks.cards(context)
    assert (found.kind.name, found.hits) == ("HEARTH-GPU-DRIVER", ("ollama",))
    nvidia(healthy.root, "550.1", "560.2", monkeypatch)
    (found,) = checks.cards(replace(with_card(healthy, "cuda"), execute=printing(CARD)))
    assert "the kernel's module is 550.1, and the libraries are 560.2" in found.evidence


@pytest.mark.parametrize(
    ("on_card", "given", "wanted"),
    [
        (4 * GIB, True, []),
        (GIB, True, [("HEARTH-MODEL-ON-CPU", "qwen3.5:4b")]),
        (0, True, [("HEARTH-MODEL-ON-CPU", "qwen3.5:4b")]),
        (0, False, []),
    ],
)
def test_a_model_that_is_not_on_the_card_is_found(
    healthy: Context, on_card: int, given: bool, wanted: list[Any]
) -> None:
    listed = {"models": [{"name": "qwen3.5:4b", "size": 4 * GIB, "size_vram": on_card}]}
    (healthy.root / "sys/bus/pci/drivers/nvidia").mkdir(parents=True)
    context = with_card(healthy, "cuda") if given else healthy
    assert seen(checks.loaded(replace(context, fetch=lambda url: listed))) == wanted


def measured(root: Path, content: str) -> None:
    path = root / "var/lib/hearth/receipt/bench-llm.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)


def test_a_model_slower_than_its_band_is_found_with_its_likeliest_cause(healthy: Context) -> None:
    model = {
        **{"name": "qwen3.5", "match": "slower", "tokens_per_s": 3.14},
        "expected": {"hearth": {"low": 8.0, "high": 12.5}},
        "causes": ["throttled: too hot", "spilled: 1.0 of 5.0 GiB"],
    }
    others = [{**model, "name": "gone:1b"}, {**model, "name": "llama3.1", "match": "as predicted"}]
    measured(healthy.root, json.dumps({"models": [model, *others]}))
    (finding,) = checks.slower_than_physics(healthy)
    assert finding.key == "HEARTH-SLOWER-THAN-PHYSICS:qwen3.5"
    assert finding.evidence == (
        "3.1 tokens/s measured, 8.0 to 12.5 computed; likely throttled: too hot; "
        "spilled: 1.0 of 5.0 GiB"
    )


@pytest.mark.parametrize("content", ["", "{", "[]", '{"models": 5}', '{"models": [{}]}'])
def test_without_a_readable_measurement_nothing_is_slow(healthy: Context, content: str) -> None:
    measured(healthy.root, content)
    assert list(checks.slower_than_physics(healthy)) == []


def test_a_server_that_does_not_answer_has_no_loaded_models(healthy: Context) -> None:
    def fetch(url: str) -> Any:
        raise ClientError("no answer")

    assert seen(checks.loaded(replace(with_card(healthy, "cuda"), fetch=fetch))) == []


@pytest.mark.parametrize(
    ("swapped_mib", "name", "wanted"),
    [
        (0, "ollama", []),
        (200, "ollama", []),
        (2000, "ollama", [("HEARTH-SWAP", "ollama")]),
        (2000, "litellm", []),
    ],
)
def test_a_model_in_the_swap_space_is_found(
    healthy: Context, swapped_mib: int, name: str, wanted: list[Any]
) -> None:
    folder = healthy.root / "proc/4711"
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text(f"0::/lxc.payload.{name}-2/system.slice/{name}.service\n")
    (folder / "status").write_text(f"VmRSS:\t {4 * 2**20} kB\nVmSwap:\t {swapped_mib * 1024} kB\n")
    assert seen(checks.swap(healthy)) == wanted


def overview(*states: ModelState, notes: Sequence[str] = ()) -> Overview:
    return Overview({one.name: one for one in states}, {}, tuple(notes))


def state(name: str, now: str, **more: Any) -> ModelState:
    return ModelState(name, name, "ollama", "chat", now, **more)


AGO = (datetime.now(UTC) - timedelta(days=2)).isoformat()
EARLIER = (datetime.now(UTC) - timedelta(hours=2)).isoformat()


@pytest.mark.parametrize(
    ("seen_models", "wanted"),
    [
        (overview(state("qwen3.5:4b", READY), state("llama3.1", PULLING)), []),
        (overview(state("qwen3.5:4b", WAITING)), []),
        (overview(state("qwen3.5:4b", MISSING)), [("HEARTH-MODEL-MISSING", "qwen3.5:4b")]),
        # It is handed in by the machine, which has lost it.
        (overview(state("tiny", WAITING)), [("HEARTH-MODEL-MISSING", "tiny")]),
        # No alias uses it.
        (overview(state("large-v3", WAITING)), []),
        (overview(state("llama3.1", FAILED, failing_since=EARLIER)), []),
        (
            overview(state("llama3.1", FAILED, failing_since=AGO)),
            [("HEARTH-MODEL-FAILED", "llama3.1")],
        ),
        (
            overview(notes=["ollama: its model puller has been silent for 9 minutes"]),
            [("HEARTH-MODELS-UNKNOWN", "ollama")],
        ),
    ],
)
def test_models_that_are_missing_or_fail_are_found(
    healthy: Context, seen_models: Overview, wanted: list[Any]
) -> None:
    assert seen(checks.models(replace(healthy, models=lambda: seen_models))) == wanted


class Secrets:
    """A vault whose values a test names."""

    path = Path("secrets.yml")

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def values(self) -> dict[str, str]:
        return self._values

    def get(self, name: str) -> str:
        return self._values[name]


WHOLE = dict.fromkeys(HOUSE.secrets, "x" * 40)


def test_missing_secrets_are_found(healthy: Context, tmp_path: Path) -> None:
    def found(vault: Any) -> list[tuple[str, str]]:
        return seen(checks.secrets(replace(healthy, vault=vault)))

    assert found(Secrets(WHOLE)) == []
    lost = {name: value for name, value in WHOLE.items() if name != "house_password"}
    assert found(Secrets(lost)) == [("HEARTH-SECRET-MISSING", "house_password")]
    assert found(Secrets({})) == [("HEARTH-SECRET-MISSING", "secrets.yml")]
    torn = tmp_path / "torn.yml"
    torn.write_text("not a vault")
    assert found(Vault(torn, tmp_path / "password")) == [("HEARTH-SECRET-MISSING", str(torn))]


@pytest.mark.parametrize(
    ("status", "wanted"),
    [(200, []), (502, []), (401, [("HEARTH-KEY-REVOKED", "consumer_hearth_verify")])],
)
def test_a_key_that_the_house_rejects_is_found(
    healthy: Context, monkeypatch: pytest.MonkeyPatch, status: int, wanted: list[Any]
) -> None:
    monkeypatch.setattr(checks, "lan_address", lambda house: "192.168.1.9")
    monkeypatch.setattr(
        "hearth.doctor.checks_models.Edge.request", lambda *_, **more: Answer(status, {}, b"")
    )
    context = replace(healthy, vault=Secrets({VERIFIER: "k" * 40}))  # type: ignore[arg-type]
    assert seen(checks.keys(context)) == wanted


LINE = 'consumer=household alias="haiku" member={} status=200 end=done tried={} path=/v1/x\n'


@pytest.mark.parametrize(
    ("log", "wanted"),
    [
        ("", []),
        (LINE.format("cloudy", "-"), []),
        (LINE.format("-", "cloudy:429"), []),
        (LINE.format("local", "cloudy:401"), [("HEARTH-KEY-REVOKED", "cloud_key")]),
        (LINE.format("local", "cloudy:403,other:500"), [("HEARTH-KEY-REVOKED", "cloud_key")]),
        # Accepted again since.
        (LINE.format("local", "cloudy:401") + LINE.format("cloudy", "-"), []),
    ],
)
def test_a_key_that_a_provider_rejects_is_found(
    healthy: Context, log: str, wanted: list[Any]
) -> None:
    model = HOUSE.models["claude-haiku-4-5"]
    cloudy = replace(model, name="cloudy", usable=True, host="api.example.com", secret="cloud_key")
    house = replace(HOUSE, models={**HOUSE.models, "cloudy": cloudy})

    def execute(instance: str | None, argv: Sequence[str], *, timeout: float) -> Completed:
        return Completed(0, log, "")

    assert seen(checks.keys(replace(healthy, house=house, execute=execute))) == wanted
