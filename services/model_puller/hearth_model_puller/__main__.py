"""Run the puller, a unit in the Ollama instance: `python3 -m hearth_model_puller`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import logging
import signal
import sys
from pathlib import Path

from hearth_model_puller import ollama
from hearth_model_puller.environment import MARGIN_BYTES, Environment, free_bytes
from hearth_model_puller.puller import Puller
from hearth_model_puller.state import ProgressFile, PullRecords


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="hearth_model_puller", description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help="models.json, the model list")
    parser.add_argument(
        "--state", type=Path, required=True, help="folder of progress.json and pulled.json"
    )
    parser.add_argument("--url", default="http://127.0.0.1:11434", help="URL of Ollama")
    parser.add_argument(
        "--disk", type=Path, default=Path("/var/lib/ollama/models"), help="folder of the models"
    )
    parser.add_argument(
        "--margin-bytes", type=int, default=MARGIN_BYTES, help="disk space to keep free"
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="only report missing models; pull and remove nothing",
    )
    return parser.parse_args(argv)


async def serve(options: argparse.Namespace) -> None:
    """Run the puller until SIGTERM or SIGINT, which stop it at once."""
    environment = Environment(
        free_bytes=functools.partial(free_bytes, options.disk),
        margin_bytes=options.margin_bytes,
    )
    progress = ProgressFile(options.state / "progress.json")
    progress.load()
    async with ollama.client_for(options.url) as client:
        puller = Puller(
            client=client,
            models_file=options.models,
            progress=progress,
            records=PullRecords(options.state / "pulled.json"),
            environment=environment,
            read_only=options.read_only,
        )
        work = asyncio.create_task(puller.run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await work


def main() -> int:
    """Run until a signal arrives; return the exit status."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(serve(parse_arguments(sys.argv[1:])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
