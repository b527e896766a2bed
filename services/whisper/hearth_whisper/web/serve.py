"""What the server is made of, and what is loaded before it listens."""

import argparse
import asyncio
import logging
import tempfile

from starlette.applications import Starlette

from hearth_serving.application import Fail
from hearth_serving.errors import ServiceError
from hearth_serving.forms import UploadSpace
from hearth_serving.server import run
from hearth_whisper.live import vad
from hearth_whisper.recognising.choice import Wanted
from hearth_whisper.recognising.maker import Maker
from hearth_whisper.recognising.work import Bounds, Work
from hearth_whisper.web.app import make_app
from hearth_whisper.web.settings import Limits
from hearth_whisper.web.state import ServerState
from hearth_whisper.wyoming.server import Satellites, start

log = logging.getLogger(__name__)

_LOOK_S = 0.05


def serve(options: argparse.Namespace, key: str | None, limits: Limits) -> None:
    """Serve until told to stop; raises ServiceError when it cannot."""
    # Large uploads go there; /tmp is memory on many machines.
    tempfile.tempdir = str(options.state) if options.state else None
    models = tuple(options.model)
    asked = Wanted(models, options.draft, options.partials, options.device, options.state)
    work = Work(Maker(asked), Bounds(share=options.share, unload_s=options.unload))
    desk = ServerState(
        limits=limits,
        key=key,
        origins=frozenset(options.origin),
        work=work,
        uploads=UploadSpace(limits.scratch_bytes),
    )
    satellites: list[Satellites] = []
    was_ready = False

    async def load() -> None:
        nonlocal was_ready
        if options.wyoming_port is not None:
            host, port = options.wyoming_host, options.wyoming_port
            counted = desk.metrics
            satellites.append(
                await start(work, host, port, ended=counted.ended, waited=counted.final)
            )
        await work.start()
        # The first talker waits for no library, and a missing detector is known at once.
        await asyncio.to_thread(vad.shared)
        await until_ready(work)
        was_ready = True

    async def close() -> None:
        for each in satellites:
            await each.close()
        await work.close()

    def app_of(fail: Fail) -> Starlette:
        return make_app(desk, load, close, fail)

    run(desk, options.host, options.port, app_of, lambda: was_ready)


async def until_ready(work: Work) -> None:
    """Wait for the first load; raises ServiceError when it fails."""
    while not work.ready:
        if work.failure:
            raise ServiceError(work.failure)
        await asyncio.sleep(_LOOK_S)
