"""Which loads the gateway refuses, and what it unloads to make room; on a scripted Ollama."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import httpx
import pytest

from hearth_gateway.errors import MemberError
from hearth_gateway.memory import Rooms
from hearth_gateway.settings import Memory, ModelInfo, Name

GIB = 2**30
URL = "http://ollama"
INFO = ModelInfo("", "", alias=False, talks=True, leaves=False)


def name(
    key: str, size_gib: float, room_gib: float = 8, refused: str = "", on_card: bool = False
) -> Name:
    memory = Memory(URL, int(size_gib * GIB), int(room_gib * GIB), refused, on_card)
    return Name(key, (key,), 60, 60, INFO, id=f"{key}:7b", memory=memory)


@dataclass
class Ollama:
    """Has models in memory, each with its size in GiB; the first one ends soonest.

    This `share` of each is on a card.
    """

    loaded: dict[str, float] = field(default_factory=dict)
    share: float = 0.0
    asked: int = 0
    unloaded: list[str] = field(default_factory=list)
    answer: httpx.Response | None = None
    now: float = 1000.0

    def handle(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/generate":
            body = json.loads(request.content)
            assert body["keep_alive"] == 0
            self.unloaded.append(body["model"])
            del self.loaded[body["model"]]
            return httpx.Response(200, json={"done": True})
        assert request.url.path == "/api/ps"
        self.asked += 1
        listed = [
            {
                "name": key,
                "size": int(size * GIB),
                "size_vram": int(self.share * size * GIB),
                "expires_at": f"2026-01-01T00:{number:02}",
            }
            for number, (key, size) in enumerate(self.loaded.items())
        ]
        return self.answer or httpx.Response(200, json={"models": listed})

    def rooms(self, *names: Name) -> Rooms:
        transport = httpx.MockTransport(self.handle)
        return Rooms({one.name: one for one in names}, transport, lambda: self.now)


async def refusal(rooms: Rooms, member: str) -> str:
    with pytest.raises(MemberError) as error:
        async with rooms.admitted(member):
            pass
    assert (error.value.status, error.value.code, error.value.final) == (507, "no_memory", False)
    return str(error.value.body["error"]["message"])


async def admit(rooms: Rooms, member: str) -> None:
    async with rooms.admitted(member):
        pass


WHY = "it needs 9.0 GiB, and TTS and the reserve leave 4.0 GiB of card"


async def test_what_the_plan_refuses_is_refused_before_it_begins() -> None:
    ollama = Ollama({"small:7b": 2})
    rooms = ollama.rooms(name("big", 9, 4, WHY))
    assert await refusal(rooms, "big") == f"big is not loaded: {WHY}"
    # Nor does anything make room for it.
    assert ollama.unloaded == []
    # Also where nobody knows what is in memory.
    ollama.answer = httpx.Response(500)
    assert await refusal(rooms, "big") == f"big is not loaded: {WHY}"


async def test_what_the_server_has_in_memory_counts_more_than_an_old_plan() -> None:
    """Another program loaded it, or the plan did not know it: its real size is the server's."""
    ollama = Ollama({"big:7b": 3})
    rooms = ollama.rooms(name("big", 9, 4, WHY), name("small", 2, 4))
    await admit(rooms, "big")
    ollama.loaded, ollama.now = {}, ollama.now + 11
    await admit(rooms, "big")
    # And the other way round: what took more than planned is refused the next time.
    ollama.loaded = {"small:7b": 5}
    await admit(rooms, "small")
    ollama.loaded, ollama.now = {}, ollama.now + 11
    assert "needs 5.0 GiB of the 4.0 GiB" in await refusal(rooms, "small")


async def test_only_its_part_of_a_card_counts_of_a_model_that_spills() -> None:
    ollama = Ollama({"spilled:7b": 12}, share=0.5)
    spilled = name("spilled", 8, 8, on_card=True)
    rooms = ollama.rooms(spilled, name("small", 2, 8, on_card=True))
    await admit(rooms, "small")
    assert ollama.unloaded == []
    # It fills the card as planned, though it took less of it when others were there.
    ollama.loaded = {"small:7b": 2}
    await admit(rooms, "spilled")
    assert ollama.unloaded == ["small:7b"]


async def test_without_a_plan_nothing_is_asked() -> None:
    ollama = Ollama()
    await admit(ollama.rooms(Name("own", ("own",), 60, 60, INFO, id="own:7b")), "own")
    assert ollama.asked == 0


async def test_a_model_that_is_there_or_fits_unloads_nothing() -> None:
    ollama = Ollama({"a:7b": 5})
    rooms = ollama.rooms(name("a", 5), name("b", 3))
    await admit(rooms, "a")
    await admit(rooms, "b")
    assert ollama.unloaded == []
    assert ollama.asked == 2


async def test_models_that_rest_make_room_the_one_that_ends_soonest_first() -> None:
    ollama = Ollama({"a:7b": 3, "b:7b": 3, "strange:1b": 2})
    await admit(ollama.rooms(name("a", 3), name("b", 3), name("c", 3)), "c")
    assert ollama.unloaded == ["a:7b"]
    ollama = Ollama({"strange:1b": 2, "a:7b": 3, "b:7b": 3})
    await admit(ollama.rooms(name("a", 3), name("b", 3), name("c", 5)), "c")
    assert ollama.unloaded == ["strange:1b", "a:7b"]


async def test_a_model_that_answers_is_not_unloaded_for_another_one() -> None:
    ollama = Ollama({"a:7b": 5})
    rooms = ollama.rooms(name("a", 5), name("b", 5))
    async with rooms.admitted("a"):
        text = await refusal(rooms, "b")
    assert ollama.unloaded == []
    assert text == (
        "b is not loaded: it needs 5.0 GiB of the 8.0 GiB for models, of which a answers others now"
    )
    await admit(rooms, "b")
    assert ollama.unloaded == ["a:7b"]


async def test_nothing_is_unloaded_for_what_has_no_room_all_the_same() -> None:
    ollama = Ollama({"a:7b": 3, "b:7b": 2})
    rooms = ollama.rooms(name("a", 3), name("b", 2), name("c", 6), name("large", 9))
    assert "needs 9.0 GiB of the 8.0 GiB" in await refusal(rooms, "large")
    async with rooms.admitted("a"):
        assert "of which a answers others now" in await refusal(rooms, "c")
    assert ollama.unloaded == []


async def test_two_loads_that_begin_at_once_count_both() -> None:
    ollama = Ollama()
    rooms = ollama.rooms(name("a", 5), name("b", 5))
    async with rooms.admitted("a"):
        # Ollama does not list what it is still loading.
        assert ollama.loaded == {}
        assert "of which a answers others now" in await refusal(rooms, "b")


async def test_a_model_that_has_just_answered_costs_no_question() -> None:
    ollama = Ollama({"a:7b": 5})
    rooms = ollama.rooms(name("a", 5), name("b", 5))
    await admit(rooms, "a")
    await admit(rooms, "a")
    assert ollama.asked == 1
    ollama.now += 11
    await admit(rooms, "a")
    assert ollama.asked == 2
    # Unloaded for another one, it is asked for at once.
    await admit(rooms, "b")
    ollama.loaded = {"b:7b": 5}
    await admit(rooms, "a")
    assert ollama.unloaded == ["a:7b", "b:7b"]


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(200, content=b"\xff"),
        httpx.Response(200, json=[1]),
        httpx.Response(200, json={"models": [5]}),
        httpx.Response(200, json={"models": None}),
    ],
)
async def test_a_server_that_answers_nonsense_is_left_to_its_own_error(
    answer: httpx.Response,
) -> None:
    await admit(Ollama(answer=answer).rooms(name("a", 5)), "a")


async def test_after_a_failed_answer_the_next_request_asks_again() -> None:
    ollama = Ollama({"a:7b": 5})
    rooms = ollama.rooms(name("a", 5))
    with pytest.raises(RuntimeError):
        async with rooms.admitted("a"):
            raise RuntimeError
    await admit(rooms, "a")
    assert ollama.asked == 2
