"""Load every pipeline by itself: a broken one is left out, and said, and the others answer.

Upstream's server moves a broken file away, which in a read-only folder ends the whole server, and
installs whatever a file's first lines ask for. This replaces its start and its end.
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

from hearth_pipelines.errors import PipelinesError
from hearth_pipelines.telling import make_safe, place

log = logging.getLogger(__name__)


def take_over(server: Any, start_s: float) -> None:
    """Make upstream's server start and end in our way, with `start_s` for each file."""
    server.on_startup = functools.partial(start, server, start_s)
    server.on_shutdown = functools.partial(end, server, start_s)


async def start(server: Any, start_s: float) -> None:
    """Fill the server with every pipeline that works."""
    for path in _files(Path(server.PIPELINES_DIR)):
        try:
            pipeline = await _started(path, start_s, server.parse_frontmatter)
            name = str(getattr(pipeline, "id", path.stem))
            if name in server.PIPELINE_MODULES:
                first = server.PIPELINE_NAMES[name]
                raise PipelinesError(f"its id {name} is also {first}.py's: choose another")
        except PipelinesError as error:
            log.error("%s is left out: %s", path.name, error)
            continue
        server.PIPELINE_MODULES[name] = pipeline
        server.PIPELINE_NAMES[name] = path.stem
        log.info("%s answers as %s", path.name, name)
    server.PIPELINES = server.get_all_pipelines()


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.py"))


async def end(server: Any, start_s: float) -> None:
    """Let every pipeline put away what it holds."""
    for name, pipeline in server.PIPELINE_MODULES.items():
        if hasattr(pipeline, "on_shutdown"):
            try:
                async with asyncio.timeout(start_s):
                    await pipeline.on_shutdown()
            except Exception as error:
                log.error("%s did not end well: %s", name, type(error).__name__)


async def _started(path: Path, start_s: float, front_matter: Any) -> Any:
    """Return the pipeline of a file, ready to answer; PipelinesError says why there is none."""
    try:
        pipeline = await _in_time(path, start_s)
        make_safe(pipeline, path)
        _set_valves(pipeline, path)
        # Some set a description themselves.
        if not hasattr(pipeline, "description"):
            module = sys.modules[type(pipeline).__module__]
            pipeline.description = front_matter(module.__doc__ or "").get("description", "")
        if hasattr(pipeline, "on_startup"):
            async with asyncio.timeout(start_s):
                await pipeline.on_startup()
    except TimeoutError:
        raise PipelinesError(f"it was not ready in {start_s:g} s") from None
    except PipelinesError:
        raise
    except SyntaxError as error:
        raise PipelinesError(f"line {error.lineno}: {error.msg}") from None
    except ModuleNotFoundError as error:
        raise PipelinesError(f"{place(error, path)}: there is no {error.name}") from None
    except Exception as error:
        # Its text may quote a key or an address.
        raise PipelinesError(place(error, path)) from None
    return pipeline


def _set_valves(pipeline: Any, path: Path) -> None:
    """Lay the inventory's valves over the pipeline's own."""
    file = path.parent / path.stem / "valves.json"
    given = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if not given:
        return
    if not hasattr(pipeline, "valves"):
        raise PipelinesError("it has no valves: take them out of pipelines_valves")
    if unknown := sorted(given.keys() - type(pipeline.valves).model_fields.keys()):
        raise PipelinesError(f"it has no valve {unknown[0]}: take it out of pipelines_valves")
    try:
        pipeline.valves = type(pipeline.valves)(**{**pipeline.valves.model_dump(), **given})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PipelinesError(f"pipelines_valves: {where}: {first['msg']}") from None


async def _in_time(path: Path, start_s: float) -> Any:
    """Run a file and make its Pipeline, in a thread that nobody waits for when it hangs."""
    loop = asyncio.get_running_loop()
    made: asyncio.Future[Any] = loop.create_future()

    def settle(pipeline: Any, error: BaseException | None) -> None:
        if not made.done():
            made.set_exception(error) if error else made.set_result(pipeline)

    def work() -> None:
        found: Any = None
        error: BaseException | None = None
        try:
            found = _made(path)
        except SystemExit:
            error = PipelinesError("it wants to end the server")
        except BaseException as caught:
            error = caught
        loop.call_soon_threadsafe(settle, found, error)

    threading.Thread(target=work, name=path.stem, daemon=True).start()
    async with asyncio.timeout(start_s):
        return await made


def _made(path: Path) -> Any:
    # By a name of its own: a pipeline may be called as a library is.
    name = f"hearth_pipeline_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PipelinesError("it is no Python")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their own module up here.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "Pipeline"):
        raise PipelinesError("it has no class Pipeline")
    return module.Pipeline()
