"""Makes the model that was chosen, and the draft of partials beside it."""

import logging
from pathlib import Path

from hearth_serving.errors import ServiceError
from hearth_serving.machine import Machine, this_machine
from hearth_whisper.recognising import Recogniser
from hearth_whisper.recognising.choice import Choice, Load, Time, Wanted, choose, rtf_of
from hearth_whisper.recognising.idle import in_idle_threads
from hearth_whisper.recognising.loading import device_of
from hearth_whisper.recognising.model import Loaded
from hearth_whisper.recognising.whisper import WhisperRecogniser

log = logging.getLogger(__name__)


def load_folder(folder: Path, device: str, threads: int, workers: int) -> Recogniser:
    """Load a model; raises ServiceError."""
    return WhisperRecogniser(folder, device, threads, workers)


class Maker:
    """Loads what was chosen; chooses at the first time, and remembers it."""

    def __init__(
        self,
        asked: Wanted,
        *,
        load: Load = load_folder,
        time: Time | None = None,
        machine: Machine | None = None,
        free: int | None = None,
    ) -> None:
        """Take what is asked; the rest is for tests."""
        self._asked, self._load, self._time = asked, load, time or rtf_of
        self._machine = machine or this_machine()
        self._free = free
        self._chosen: Choice | None = None

    def __call__(self) -> Loaded:
        """Load it, and the draft beside it; raises ServiceError."""
        if self._chosen is None:
            self._chosen = self._choose()
        chosen = self._chosen
        shared = chosen.device == "cuda" and self._asked.draft is None and self._asked.partials
        model = self._load(chosen.folder, chosen.device, chosen.threads, 2 if shared else 1)
        draft = model if shared else self._draft(chosen)
        return Loaded(model, draft, chosen.reason, chosen.rtf)

    def _choose(self) -> Choice:
        device = device_of(self._asked.device)
        try:
            return choose(self._asked, device, self._load, self._time, self._machine, self._free)
        except ServiceError as error:
            if device == "cpu" or self._asked.device != "auto":
                raise
            log.warning("using the CPU instead of the GPU: %s", error)
            return choose(self._asked, "cpu", self._load, self._time, self._machine, self._free)

    def _draft(self, chosen: Choice) -> Recogniser | None:
        """Load what makes partials, in threads that disturb nobody."""
        if not self._asked.partials:
            return None
        folder = self._asked.draft or chosen.folder

        def make() -> Recogniser:
            return self._load(folder, chosen.device, chosen.threads, 1)

        try:
            return in_idle_threads(make) if chosen.device == "cpu" else make()
        except ServiceError as error:
            log.warning("partial results are off: %s", error)
            return None
