"""`python3 -m hearth_model_puller`: the unit in the Ollama instance that pulls its models."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import logging
import signal
import sys
from pathlib import Path

from hearth_model_puller import ollama, room
from hearth_model_puller.puller import Puller
from hearth_model_puller.state import Board, Ledger
from hearth_model_puller.world import MARGIN_BYTES, World


def arguments(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="hearth_model_puller", description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help="models.json: what is wanted")
    parser.add_argument("--state", type=Path, required=True, help="folder of progress.json")
    parser.add_argument("--url", default="http://127.0.0.1:11434", help="Ollama's own address")
    parser.add_argument(
        "--disk", type=Path, default=Path("/var/lib/ollama/models"), help="where the models lie"
    )
    parser.add_argument(
        "--margin-bytes", type=int, default=MARGIN_BYTES, help="disk that stays free"
    )
    parser.add_argument(
        "--read-only", action="store_true", help="pull and remove nothing, say what is missing"
    )
    return parser.parse_args(argv)


async def serve(options: argparse.Namespace) -> None:
    """Run the puller until SIGTERM or SIGINT, which end it at once."""
    world = World(
        free_bytes=functools.partial(room.free_bytes, options.disk),
        margin_bytes=options.margin_bytes,
    )
    board = Board(options.state / "progress.json")
    board.load()
    async with ollama.client_for(options.url) as client:
        puller = Puller(
            client=client,
            models_file=options.models,
            board=board,
            ledger=Ledger(options.state / "pulled.json"),
            world=world,
            read_only=options.read_only,
        )
        work = asyncio.create_task(puller.run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await work


def main() -> int:
    """Start, and return the exit status."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(serve(arguments(sys.argv[1:])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
