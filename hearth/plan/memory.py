"""One memory budget per device: each line says what it is for, and where its number comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hearth.plan.machine import GIB, Place
from hearth.plan.models import (
    BATCH_TOKENS,
    CACHE_BYTES,
    CacheType,
    KnownModel,
    Shape,
    cache_bytes,
    graph_bytes,
)
from hearth.plan.speed import Work

# A driver's context and a desktop's least share of a card; the system's of a shared memory.
CARD_RESERVE_BYTES = GIB // 2
SYSTEM_RESERVE_BYTES, SYSTEM_SHARE = 2 * GIB, 1 / 8
# The house without its models and speech, which have lines of their own.
HOUSE_BYTES = 1.4e9


@dataclass(frozen=True, slots=True)
class Line:
    """One thing in a device's memory; `source` says how its size is known."""

    what: str
    size_bytes: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Everything that shares one device's memory."""

    device: str
    memory_bytes: float
    lines: tuple[Line, ...]

    @property
    def used_bytes(self) -> float:
        """The sum of all lines."""
        return sum(line.size_bytes for line in self.lines)

    @property
    def free_bytes(self) -> float:
        """What is left; negative where it does not fit."""
        return self.memory_bytes - self.used_bytes

    @property
    def fits(self) -> bool:
        """Whether everything has room."""
        return self.free_bytes >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model as the runtime loads it: tokens of one conversation, and how many run at once."""

    name: str
    shape: Shape
    weights_bytes: float
    weights_source: str
    quantisation: str
    context: int
    slots: int = 1
    cache_type: CacheType = "f16"

    def lines(self, place: Place) -> tuple[Line, ...]:
        """Return what it takes of a place's memory."""
        on_card = place.backend != "cpu"
        weights, source = self.weights_bytes, self.weights_source
        if on_card and place.kind == "dedicated" and not self.shape.tied:
            kept = self.shape.embedding_bytes or _embedding_bytes(self)
            weights -= kept
            source += f", without the embedding ({kept / 1e9:.1f} GB), which stays on the host"
        cells = f"{self.context} tokens for {self.slots} at once, {self.cache_type}"
        return (
            Line(f"{self.name}: weights", weights, source),
            Line(
                f"{self.name}: cache",
                cache_bytes(self.shape, self.context, self.slots, self.cache_type),
                f"{cells}, {self.shape.layers} layers",
            ),
            Line(
                f"{self.name}: graph",
                graph_bytes(self.shape, on_card),
                f"a batch of {BATCH_TOKENS} tokens",
            ),
        )

    def work(self, place: Place) -> Work:
        """Return what it moves in a place."""
        weights, cache, graph = self.lines(place)
        # Experts that are not used stay untouched.
        share = self.shape.active_parameters / self.shape.parameters
        share = share if self.shape.is_mixture else 1.0
        return Work(
            parameters=self.shape.parameters,
            active_parameters=self.shape.active_parameters,
            weights_bytes=weights.size_bytes,
            active_bytes=self.weights_bytes * share,
            # A recurrent layer starts about twice as many kernels as one with a cache.
            layers=self.shape.layers + self.shape.recurrent_layers,
            cache_bytes=cache.size_bytes,
            graph_bytes=graph.size_bytes,
        )


def loaded(
    model: KnownModel,
    quantisation: str,
    context: int,
    slots: int = 1,
    cache_type: CacheType = "f16",
) -> Loaded:
    """Return a model of the list in one of its quantisations."""
    return Loaded(
        name=model.tag(quantisation),
        shape=model.shape,
        weights_bytes=model.files[quantisation],
        weights_source="the registry's size of the file",
        quantisation=quantisation,
        context=context,
        slots=slots,
        cache_type=cache_type,
    )


def reserve_lines(place: Place, reserve_bytes: float | None = None) -> tuple[Line, ...]:
    """Return what a device's memory keeps for others: what they hold now, or a set reserve."""
    if reserve_bytes is not None:
        return (Line("reserve", reserve_bytes, "set with --reserve"),)
    if place.kind == "dedicated":
        least, source = float(CARD_RESERVE_BYTES * place.cards), "the driver, and a desktop's least"
    else:
        least = min(SYSTEM_RESERVE_BYTES, place.memory_bytes * SYSTEM_SHARE)
        source = "the system's least"
    if place.held_bytes > least:
        return (Line("reserve", place.held_bytes, "what other programs hold now"),)
    return (Line("reserve", least, source),)


def house_line() -> Line:
    """Return what the house's other services take of the machine's memory."""
    return Line("the house", HOUSE_BYTES, "measured: chat, gateway, agents and figures")


def budget(place: Place, lines: Iterable[Line]) -> Budget:
    """Return the budget of a place."""
    return Budget(device=place.name, memory_bytes=place.memory_bytes, lines=tuple(lines))


@dataclass(frozen=True, slots=True)
class Alternative:
    """A change that saves memory, and its price in words; sizes in bytes."""

    what: str
    saves_bytes: float
    price: str


def alternatives(model: Loaded, least_context: int = 4096) -> Sequence[Alternative]:
    """Return what would make a model smaller, the least painful first."""
    now = cache_bytes(model.shape, model.context, model.slots, model.cache_type)
    found = []
    if model.cache_type == "f16":
        small = cache_bytes(model.shape, model.context, model.slots, "q8_0")
        share = CACHE_BYTES["q8_0"] / CACHE_BYTES["f16"]
        price = f"the cache takes {share:.0%}; answers hardly change"
        found.append(Alternative("a q8_0 cache", now - small, price))
    if model.slots > 1:
        one = cache_bytes(model.shape, model.context, 1, model.cache_type)
        price = f"{model.slots} requests wait for each other"
        found.append(Alternative("one request at a time", now - one, price))
    if model.context > least_context:
        short = cache_bytes(model.shape, least_context, model.slots, model.cache_type)
        price = f"conversations end after {least_context} tokens"
        found.append(Alternative(f"a context of {least_context}", now - short, price))
    return found


def _embedding_bytes(model: Loaded) -> float:
    """Return the size of the token embedding, which is kept in the type of most weights."""
    parameters = model.shape.parameters
    return model.shape.vocabulary * model.shape.width * model.weights_bytes / parameters
