"""Images are built side by side, and an instance does not wait for another instance's image."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hearth.machine.images import ImageError, Recipe
from hearth.remove.service import claim, unclaimed
from tests.unit.machine.samples import HOUSE
from tests.unit.plugins.by_path import plugin

action: Any = plugin("action", "house_instances")
WITHIN_S = 30
RECIPES = [Recipe(f"debian/{name}", (), "10.140.30.1", "") for name in ("12", "13", "forky")]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nice: dict[str, int]) -> list[str]:
    """What was built and converged, in order; all three images are begun before one is ready."""
    done: list[str] = []
    begun = threading.Barrier(3, timeout=WITHIN_S)
    first = threading.Event()

    def build(recipe: Recipe, _: Path, _takers: object) -> None:
        begun.wait()
        nice[recipe.image] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        # The last image takes until an instance of another one is there.
        if recipe is RECIPES[2]:
            assert first.wait(WITHIN_S)
        done.append(recipe.image)

    def ensure(_client: object, item: Any, _write: bool) -> list[str]:
        done.append(item.name)
        first.set()
        return [f"create {item.name}"]

    monkeypatch.setattr(action, "Client", lambda endpoint: None)
    monkeypatch.setattr(action.images, "FOLDER", tmp_path / "images")
    monkeypatch.setattr(action.readiness, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setattr(action.quiet, "LOCK", tmp_path / "quiet.lock")
    monkeypatch.setattr(action.images, "make_image", build)
    monkeypatch.setattr(action.instances, "ensure", ensure)
    return done


@pytest.fixture
def nice() -> dict[str, int]:
    """The niceness that each image was built with."""
    return {}


def incus(*present: Recipe) -> Any:
    aliases = [SimpleNamespace(aliases=[{"name": recipe.alias}]) for recipe in present]
    return SimpleNamespace(images=SimpleNamespace(all=lambda: aliases))


WANTED = [
    SimpleNamespace(name="chat", image=RECIPES[0].alias),
    SimpleNamespace(name="speech", image=RECIPES[1].alias),
    SimpleNamespace(name="gateway", image=RECIPES[1].alias),
    SimpleNamespace(name="models", image=RECIPES[2].alias),
]


def test_instances_start_while_another_image_is_being_built(steps: list[str]) -> None:
    recipes = [RECIPES[0], RECIPES[1], RECIPES[1], RECIPES[2]]
    did = action.converge_images(incus(), recipes, WANTED, True)
    before = steps[: steps.index("debian/forky")]
    assert {"chat", "speech"} & set(before), steps
    assert steps.index("debian/forky") < steps.index("models")
    assert steps.index("debian/12") < steps.index("chat")
    assert steps.index("debian/13") < steps.index("speech") < steps.index("gateway")
    assert did == [
        f"build image {RECIPES[0].alias}", "create chat",
        f"build image {RECIPES[1].alias}", "create speech", "create gateway",
        f"build image {RECIPES[2].alias}", "create models",
    ]  # fmt: skip


def test_a_mounted_folder_goes_with_its_last_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims, programs = tmp_path / "claims", tmp_path / "programs"
    monkeypatch.setattr(action, "claim", partial(claim, claims=claims))
    names = {"kokoro": ("kokoro", "voices"), "kokoro_gpu": ("kokoro_gpu", "voices")}
    services: Any = [SimpleNamespace(name=n, programs=p) for n, p in names.items()]
    action.claim_programs(services)
    found = [trace.what for trace in unclaimed(["kokoro"], programs, claims)]
    assert found == ["program kokoro", "claim of kokoro to program voices"]


def test_what_the_first_answer_needs_does_not_share_the_processor(
    steps: list[str], nice: dict[str, int]
) -> None:
    own = os.nice(0)
    action.converge_images(incus(), RECIPES, WANTED, True, {"gateway", "models"})
    assert nice == {"debian/12": 19, "debian/13": own, "debian/forky": own}
    assert steps.index("gateway") < steps.index("speech")


def test_an_instance_is_told_of_before_the_last_image(
    steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = []

    def build(recipe: Recipe, _: Path, _takers: object) -> None:
        if recipe is RECIPES[2]:
            ready.append(action.readiness.wait("gateway", WITHIN_S))

    monkeypatch.setattr(action.images, "make_image", build)
    action.converge_images(incus(), RECIPES, WANTED, True)
    assert ready == [True]


def test_after_an_error_an_instance_without_an_image_is_not_there(
    steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def converge(*_: object) -> None:
        action.readiness.publish("gateway", ready=True)
        raise ImageError("image debian/13: mmdebstrap: no network")

    monkeypatch.setattr(action, "converge", converge)
    services = HOUSE.as_vars()["services"]
    doing = object.__new__(action.ActionModule)
    with pytest.raises(ImageError):
        doing.work({"services": services}, write=True)
    names = ("gateway", *(service["instance"] for service in services.values()))
    there = {name: action.readiness.wait(name, 0) for name in names}
    assert there == dict.fromkeys(names, False) | {"gateway": True}


def test_nobody_waits_for_ever() -> None:
    with pytest.raises(action.readiness.ReadinessError, match="chat was not ready in"):
        action.readiness.wait("chat", 0.1)


def test_images_that_are_there_are_not_built(steps: list[str]) -> None:
    action.converge_images(incus(*RECIPES), RECIPES, WANTED, True)
    assert sorted(steps) == ["chat", "gateway", "models", "speech"]


def test_an_image_that_fails_is_the_error(
    steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(recipe: Recipe, _: Path, _takers: object) -> None:
        if recipe is RECIPES[1]:
            raise ImageError("image debian/13: mmdebstrap: no network")

    monkeypatch.setattr(action.images, "make_image", build)
    with pytest.raises(ImageError, match="debian/13"):
        action.converge_images(incus(), RECIPES, WANTED, True)
    assert "speech" not in steps


def test_an_image_that_fails_undoes_only_the_moves_of_this_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that an earlier run has copied may have been written to in the new engine since."""
    moves, done = action.moves, []
    monkeypatch.setattr(moves, "start_old", lambda client, service, move: done.append(move.service))
    monkeypatch.setattr(moves, "forget", lambda name: done.append(f"forget {name}"))
    services = {name: SimpleNamespace(runtime="incus") for name in ("begun", "copied", "back")}
    moving = [
        moves.Move("begun", "podman", copied=False),
        moves.Move("copied", "podman", copied=True),
        moves.Move("back", "incus", copied=False),
    ]
    with pytest.raises(ImageError), action.brought_back(None, services, moving):
        raise ImageError("image debian/13: no network")
    assert done == ["begun", "forget begun"]
    with action.brought_back(None, services, moving):
        pass
    assert done == ["begun", "forget begun"]
