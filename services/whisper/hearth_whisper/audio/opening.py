"""Opening strangers' files where nobody else has to wait for it."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO

from hearth_whisper.audio.decode import Recording, open_sound
from hearth_whisper.audio.source import Source

# A file may be made so that finding its sound takes seconds. The pool that asyncio shares among
# all, and waits for at the end, must not be full of them; nor may they take all processors.
_POOL = ThreadPoolExecutor(4, "open")


async def open_apart(file: IO[bytes], most_s: float) -> Recording:
    """Open an upload; raises ServiceError as `open_sound` does.

    Who does not wait any longer ends it: no thread goes on with what nobody wants.
    """
    source = Source(file)
    opening = _POOL.submit(open_sound, source, most_s)
    try:
        return await asyncio.wrap_future(opening)
    except asyncio.CancelledError:
        source.end()
        opening.add_done_callback(_forget)
        raise


def _forget(opening: Future[Recording]) -> None:
    if not opening.cancelled() and not opening.exception():
        opening.result().close()
