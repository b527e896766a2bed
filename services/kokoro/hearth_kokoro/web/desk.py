"""Everything that the answers need, put together once."""

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hearth_kokoro.engines import Engine
from hearth_kokoro.errors import SpeechError
from hearth_kokoro.speaking.speaker import Speaker
from hearth_kokoro.voices import Voices
from hearth_kokoro.web.metrics import Metrics
from hearth_kokoro.web.settings import Limits


@dataclass(frozen=True, slots=True)
class Loaded:
    """What there is once the model is warm."""

    speaker: Speaker
    voices: Voices
    engine: Engine
    because: str
    """Why this engine, this model and this many threads."""
    languages: Mapping[str, str]
    """Language -> what reads it, or why it cannot be read."""


@dataclass(slots=True)
class Desk:
    """What the server knows while it runs; `loaded` is None until it may speak."""

    limits: Limits
    key: str | None = None
    origins: frozenset[str] = frozenset()
    metrics: Metrics = field(default_factory=Metrics)
    started: float = field(default_factory=time.monotonic)
    loaded: Loaded | None = None
    live: int = 0
    sockets: Callable[[], int] = lambda: 0
    """How many sockets are open now; whoever listens says so."""

    def ready(self) -> Loaded:
        """Return what speaks; raises SpeechError while it is still starting."""
        if self.loaded is None:
            raise SpeechError(
                "the model is still loading; try again",
                status=503,
                code="starting",
                retry_after_s=2,
            )
        return self.loaded

    def opens(self, authorization: list[str]) -> bool:
        """Say whether this is the key, in a time that does not depend on what was sent."""
        if self.key is None:
            return True
        scheme, _, sent = authorization[0].strip().partition(" ") if authorization else ("", "", "")
        right = hmac.compare_digest(_digest(self.key), _digest(sent.strip()))
        # Of two headers, a proxy before us may believe the other: then neither opens anything.
        return right and scheme.lower() == "bearer" and len(authorization) == 1


def _digest(key: str) -> bytes:
    # Equal lengths for all keys: compare_digest leaks the length of what differs in length.
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
