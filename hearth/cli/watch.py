"""`hearth watch`: the program behind the house's health page."""

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer

from hearth.doctor.watch import Watcher, read_house
from hearth.paths import HOUSE_FILE, WATCH_FOLDER, WATCH_STATE


def watch_house(
    house: Annotated[
        Path, typer.Option(metavar="FILE", help="The house, as `hearth up` wrote it.")
    ] = HOUSE_FILE,
    to: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of the snapshot, in memory.")
    ] = WATCH_FOLDER,
    state: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of what it remembers.")
    ] = WATCH_STATE,
) -> None:
    """Watch the house and keep its state for the health page; the unit hearth-watch runs this.

    Example: hearth watch --to /tmp
    """
    watcher = Watcher(read_house(house), to, state)

    async def run() -> None:
        running = asyncio.ensure_future(watcher.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()

    asyncio.run(run())
