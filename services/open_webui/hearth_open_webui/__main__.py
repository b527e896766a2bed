"""`python3 -m hearth_open_webui --settings FILE --host ADDRESS --port PORT`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hearth_open_webui.settings import SettingsError, read


def main(words: Sequence[str] | None = None) -> int:
    """Set the environment of this very process, then serve until it is told to end."""
    parser = argparse.ArgumentParser(prog="hearth_open_webui", description=__doc__)
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    asked = parser.parse_args(words)
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    try:
        # What is set here stands in this process' memory; /proc/PID/environ shows what was given
        # to it at its start, and that has no secrets.
        os.environ.update(read(asked.settings, Path(folder) if folder else None))
    except SettingsError as error:
        print(f"hearth_open_webui: {error}", file=sys.stderr)
        return 2
    _serve(asked.host, asked.port)
    return 0


def _serve(host: str, port: int) -> None:
    # Open WebUI reads its environment when it is imported.
    import uvicorn

    uvicorn.run(
        "open_webui.main:app",
        host=host,
        port=port,
        # Paths of chats and files say what people do; the front door counts requests.
        access_log=False,
        forwarded_allow_ips="*",
        ws="websockets-sansio",
    )


if __name__ == "__main__":
    sys.exit(main())
