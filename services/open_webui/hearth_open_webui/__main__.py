"""Start Open WebUI: `python3 -m hearth_open_webui --settings FILE --host ADDRESS --port PORT`."""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from hearth_open_webui import streams
from hearth_open_webui.accounts import check_password, guarded
from hearth_open_webui.cache import keep_apart, keep_bytecode, keep_removing_files
from hearth_open_webui.settings import SettingsError, read_settings

# The house's own additions to the page.
PAGE = Path(__file__).parent / "page"


def main(words: Sequence[str] | None = None) -> int:
    """Set the environment of this very process, then serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="hearth_open_webui", description=__doc__)
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cache", type=Path, help="a folder outside of backups")
    options = parser.parse_args(words)
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    try:
        # These values are only in this process' memory; /proc/PID/environ shows the environment
        # from its start, which has no secrets.
        os.environ.update(read_settings(options.settings, Path(folder) if folder else None))
        check_password(os.environ)
    except SettingsError as error:
        print(f"hearth_open_webui: {error}", file=sys.stderr)
        return 2
    if options.cache:
        keep_bytecode(options.cache / "bytecode", Path(__file__).parents[1])
        keep_apart(Path(os.environ["DATA_DIR"]) / "cache", options.cache / "open_webui")
    _serve(options.host, options.port)
    return 0


def _serve(host: str, port: int) -> None:
    # Open WebUI reads its environment on import, and empties its folder of static files.
    import uvicorn
    from open_webui.config import CACHE_DIR, STATIC_DIR
    from open_webui.main import app
    from open_webui.models.users import Users

    # It imports numpy, whose bytecode is kept only from here on.
    from hearth_open_webui import passages

    shutil.copyfile(PAGE / "loader.js", Path(STATIC_DIR) / "loader.js")
    keep_removing_files(Path(CACHE_DIR) / "audio")
    streams.patch()
    if os.environ.get("VECTOR_DB", "chroma") == "chroma":
        passages.patch()
    sign_up = os.environ.get("ENABLE_SIGNUP", "").lower() == "true"
    uvicorn.run(
        guarded(app, Users.has_users, sign_up),
        host=host,
        port=port,
        # Paths and search terms of chats are private.
        access_log=False,
        # Only the reverse proxy and the house's own services can reach this port.
        forwarded_allow_ips="*",
        # Every token is a message of its own, and compressing each costs more than it saves.
        ws_per_message_deflate=False,
        # Longer than the reverse proxy keeps an idle connection: at its end a message is lost.
        timeout_keep_alive=130,
    )


if __name__ == "__main__":
    sys.exit(main())
