"""Run a pipeline so that its failure is told to whoever asked, and nobody's words to the log."""

import inspect
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from starlette.exceptions import HTTPException

from hearth_pipelines.errors import PipelineError, PipelinesError

log = logging.getLogger(__name__)

FILTER, MANIFOLD = "filter", "manifold"


def make_safe(pipeline: Any, path: Path) -> None:
    """Let failures of one pipeline stay its own.

    Raises:
        PipelinesError: upstream's server could not use it, and would not say so.
    """
    kind = getattr(pipeline, "type", None)
    if kind not in (None, FILTER, MANIFOLD):
        # Upstream's server would load it and show it nowhere.
        raise PipelinesError(f"type is {kind!r}: write filter or manifold, or leave it out")
    if kind == FILTER:
        return
    pipe = getattr(pipeline, "pipe", None)
    if not callable(pipe):
        raise PipelinesError("class Pipeline has no pipe: write def pipe(self, user_message, …)")
    if inspect.iscoroutinefunction(pipe) or inspect.isasyncgenfunction(pipe):
        raise PipelinesError("pipe is async, which upstream's server does not call: write def pipe")
    pipeline.pipe = _told(pipe, path)
    if kind == MANIFOLD:
        pipeline.pipelines = _listed(getattr(pipeline, "pipelines", None), path)


def place(error: BaseException, path: Path) -> str:
    """Say what kind of error it was and in which line of the pipeline, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{type(error).__name__} in line {lines[-1]}" if lines else type(error).__name__


def _told(pipe: Callable[..., Any], path: Path) -> Callable[..., Any]:
    """Answer a stream's failure in the stream, any other by a status."""

    def whole(**asked: Any) -> Any:
        try:
            result = pipe(**asked)
            known = isinstance(result, str | dict | BaseModel)
            return result if known else "".join(f"{piece}" for piece in result)
        except Exception as error:
            raise HTTPException(502, _words(error, path)) from None

    def stream(**asked: Any) -> Iterator[Any]:
        try:
            result = pipe(**asked)
            if isinstance(result, Iterator):
                yield from result
            else:
                yield result if isinstance(result, dict | BaseModel) else f"{result}"
        except Exception as error:
            # Without this the answer would just stop, as if it were whole.
            yield {"error": {"message": _words(error, path)}}

    def run(**asked: Any) -> Any:
        return stream(**asked) if asked["body"].get("stream") else whole(**asked)

    return run


def _words(error: Exception, path: Path) -> str:
    """Return words for people; of an unexpected error neither they nor the log get the text."""
    if isinstance(error, PipelineError):
        log.warning("%s has no answer", path.name)
        return str(error)
    log.error("%s failed: %s", path.name, place(error, path))
    return f"The pipeline {path.stem} failed; the house's log says where."


def _listed(given: Any, path: Path) -> Callable[[], list[dict[str, Any]]]:
    """List a manifold's models; upstream's server asks for them at every request of anybody."""

    def listed() -> list[dict[str, Any]]:
        try:
            found = given() if callable(given) else given
            return [{**one, "id": str(one["id"]), "name": str(one["name"])} for one in found]
        except Exception as error:
            log.error("%s lists no models: %s", path.name, place(error, path))
            return []

    return listed
