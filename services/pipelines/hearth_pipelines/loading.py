"""Load each pipeline separately: a broken one is left out and reported, and the others work.

Upstream's server moves a broken file to another folder, which stops the server if the folder is
read-only. It also installs the requirements in a file's first lines. This replaces both.
"""

import asyncio
import functools
import importlib.util
import json
import logging
import sys
import threading
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hearth_pipelines.errors import SetupError
from hearth_pipelines.wrapping import error_place, wrap_pipeline

log = logging.getLogger(__name__)


def replace_loading(server: Any, start_s: float) -> None:
    """Replace how upstream's server starts and stops pipelines; each has `start_s` seconds."""
    server.on_startup = functools.partial(start_all, server, start_s)
    server.on_shutdown = functools.partial(stop_all, server, start_s)


async def start_all(server: Any, start_s: float) -> None:
    """Load and start all pipelines, and log those that fail."""
    for path in _files(server.PIPELINES_DIR):
        try:
            pipeline = await _start(path, start_s, server.parse_frontmatter)
            name = str(getattr(pipeline, "id", path.stem))
            if name in server.PIPELINE_MODULES:
                first = server.PIPELINE_NAMES[name]
                raise SetupError(f"its id {name} is also used by {first}.py: choose another")
        except SetupError as error:
            log.error("%s is left out: %s", path.name, error)
            continue
        server.PIPELINE_MODULES[name] = pipeline
        server.PIPELINE_NAMES[name] = path.stem
        log.info("%s is available as %s", path.name, name)
    server.PIPELINES = server.get_all_pipelines()


def _files(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("*.py"))


async def stop_all(server: Any, stop_s: float) -> None:
    """Run the shutdown function of each pipeline that has one."""
    for name, pipeline in server.PIPELINE_MODULES.items():
        if hasattr(pipeline, "on_shutdown"):
            try:
                async with asyncio.timeout(stop_s):
                    await pipeline.on_shutdown()
            except Exception as error:
                log.error("%s failed to shut down: %s", name, type(error).__name__)


async def _start(path: Path, start_s: float, front_matter: Any) -> Any:
    """Return the pipeline of a file, ready for requests; raise SetupError if it cannot be."""
    try:
        pipeline = await _create_in_time(path, start_s)
        wrap_pipeline(pipeline, path)
        _set_valves(pipeline, path)
        # Some pipelines set a description themselves.
        if not hasattr(pipeline, "description"):
            module = sys.modules[type(pipeline).__module__]
            pipeline.description = front_matter(module.__doc__ or "").get("description", "")
        if hasattr(pipeline, "on_startup"):
            async with asyncio.timeout(start_s):
                await pipeline.on_startup()
    except TimeoutError:
        raise SetupError(f"it was not ready in {start_s:g} s") from None
    except SetupError:
        raise
    except SyntaxError as error:
        raise SetupError(f"line {error.lineno}: {error.msg}") from None
    except ModuleNotFoundError as error:
        raise SetupError(f"{error_place(error, path)}: no module named {error.name}") from None
    except Exception as error:
        # The error's text may quote a key or an address.
        raise SetupError(error_place(error, path)) from None
    return pipeline


def _set_valves(pipeline: Any, path: Path) -> None:
    """Override the pipeline's valves with those of the inventory."""
    file = path.parent / path.stem / "valves.json"
    given = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if not given:
        return
    if not hasattr(pipeline, "valves"):
        raise SetupError("it has no valves: remove them from pipelines_valves")
    if unknown := sorted(given.keys() - type(pipeline.valves).model_fields.keys()):
        raise SetupError(f"it has no valve {unknown[0]}: remove it from pipelines_valves")
    try:
        pipeline.valves = type(pipeline.valves)(**{**pipeline.valves.model_dump(), **given})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SetupError(f"pipelines_valves: {where}: {first['msg']}") from None


async def _create_in_time(path: Path, start_s: float) -> Any:
    """Run a file and create its Pipeline in a daemon thread, which is abandoned if it hangs."""
    loop = asyncio.get_running_loop()
    created: asyncio.Future[Any] = loop.create_future()

    def settle(pipeline: Any, error: BaseException | None) -> None:
        if not created.done():
            created.set_exception(error) if error else created.set_result(pipeline)

    def work() -> None:
        pipeline: Any = None
        error: BaseException | None = None
        try:
            pipeline = _create(path)
        except SystemExit:
            error = SetupError("it calls sys.exit")
        except BaseException as caught:
            error = caught
        loop.call_soon_threadsafe(settle, pipeline, error)

    threading.Thread(target=work, name=path.stem, daemon=True).start()
    async with asyncio.timeout(start_s):
        return await created


def _create(path: Path) -> Any:
    # With a prefix, because a pipeline may have the name of a library.
    name = f"hearth_pipeline_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SetupError("it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module here.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "Pipeline"):
        raise SetupError("it has no class Pipeline")
    return module.Pipeline()
