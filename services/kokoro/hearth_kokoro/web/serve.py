"""What is loaded before the server speaks."""

import argparse
import logging
import time

from starlette.applications import Starlette

from hearth_kokoro.engines.choice import Choice, choose
from hearth_kokoro.phonemes.phonemizer import Phonemizer
from hearth_kokoro.speaking.speaker import Speaker
from hearth_kokoro.voices import Voices
from hearth_kokoro.web.app import make_app
from hearth_kokoro.web.settings import Limits
from hearth_kokoro.web.state import Loaded, ServerState
from hearth_serving.application import Fail
from hearth_serving.server import run, run_in_daemon

log = logging.getLogger(__name__)


def serve(options: argparse.Namespace, key: str | None, limits: Limits) -> None:
    """Serve until told to stop; raises ServiceError when it cannot."""
    desk = ServerState(limits, key, frozenset(options.origin))

    async def load() -> Loaded:
        began = time.monotonic()
        loaded = await load_speaker(options)
        engine = loaded.engine
        log.info(
            "ready after %.1f s: %s, %s, %d threads (%s)",
            time.monotonic() - began,
            engine.model,
            engine.provider,
            engine.threads,
            loaded.reason,
        )
        desk.metrics.watch_speaker(loaded.speaker)
        return loaded

    def app_of(fail: Fail) -> Starlette:
        return make_app(desk, load, fail)

    run(desk, options.host, options.port, app_of, lambda: desk.loaded is not None)


async def load_speaker(options: argparse.Namespace) -> Loaded:
    """Load everything off the event loop, and warm it up."""
    voices, choice, phonemizer = await run_in_daemon(lambda: _load(options))
    speaker = Speaker(choice.engine, voices, phonemizer)
    await speaker.start()
    return Loaded(speaker, voices, choice.engine, choice.reason, phonemizer.languages())


def _load(options: argparse.Namespace) -> tuple[Voices, Choice, Phonemizer]:
    voices = Voices.load(options.voices)
    measured_by = voices.get(voices.names[0]).styles
    choice = choose(options.model, options.state, voice=measured_by, engine=options.engine)
    return voices, choice, Phonemizer()
