"""All recognitions of a process over one model in memory: finals first, then files, in turns."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from hearth_whisper.recognising import Options, Samples, Segment, Sound, Stop


@dataclass(frozen=True, slots=True)
class Recognised:
    """A whole text, and what it cost."""

    segments: tuple[Segment, ...]
    language: str | None
    """None where nobody spoke."""
    language_probability: float
    audio_s: float
    seconds: float
    """From the beginning of its work, without the wait for it."""

    @property
    def text(self) -> str:
        """The text of all segments, without the space before and after."""
        return "".join(segment.text for segment in self.segments).strip()


class FileText:
    """A file under way: `async for segment in it`; leaving it, or aclose(), stops its work.

    `language`, `language_probability` are known as soon as Work.file has returned it;
    `audio_s`, the length of what was read, when the last segment came.
    """

    language: str | None
    language_probability: float
    audio_s: float

    def __aiter__(self) -> AsyncIterator[Segment]:
        """Return the segments as they come."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Stop it; a second time does nothing."""
        raise NotImplementedError


class Work:
    """Everything that the model is asked for, from HTTP, sockets and satellites."""

    async def start(self) -> None:
        """Load and measure in the background; requests wait, /health answers meanwhile."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop what runs, refuse what waits (503), free the model."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        """Whether it can serve: loaded, or unloaded for idleness and loadable on demand."""
        raise NotImplementedError

    @property
    def failure(self) -> str | None:
        """Why it cannot serve, in one line; None while it loads and when it is ready."""
        raise NotImplementedError

    async def file(self, sound: Sound, options: Options) -> FileText:
        """Begin a file; blocks of sound are pulled in a thread of ours, so they may block.

        Raises ServiceError: 429 with Retry-After when too many wait, 400 for a language that the
        model does not know, 503 when it cannot load; and whatever the iteration of `sound` raises.
        """
        raise NotImplementedError

    async def final(self, samples: Samples, options: Options, stop: Stop) -> Recognised:
        """Recognise at most 30 s, before any file's next step; raises Stopped after `stop.set()`.

        Cancelling the task stops it as well. Finals are served one after another as they came.
        """
        raise NotImplementedError

    async def partial(self, samples: Samples, options: Options) -> Recognised | None:
        """Recognise what was said until now; None when there is no capacity for it at present."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """Return what /status says of model, draft, device, threads, RTF, turns and memory."""
        raise NotImplementedError
