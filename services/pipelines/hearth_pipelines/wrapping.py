"""Wrap pipelines so that the user sees a failure, and the log contains no conversation."""

import inspect
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from starlette.exceptions import HTTPException

from hearth_pipelines.errors import PipelineError, SetupError

log = logging.getLogger(__name__)

FILTER, MANIFOLD = "filter", "manifold"


def wrap_pipeline(pipeline: Any, path: Path) -> None:
    """Wrap a pipeline so that its failure does not affect others.

    Raises:
        SetupError: upstream's server cannot use it, and would not report that.
    """
    kind = getattr(pipeline, "type", None)
    if kind not in (None, FILTER, MANIFOLD):
        # Upstream's server would load it without offering it.
        raise SetupError(f"type is {kind!r}: write filter or manifold, or remove it")
    if kind == FILTER:
        return
    pipe = getattr(pipeline, "pipe", None)
    if not callable(pipe):
        raise SetupError("class Pipeline has no pipe: write def pipe(self, user_message, …)")
    if inspect.iscoroutinefunction(pipe) or inspect.isasyncgenfunction(pipe):
        raise SetupError("pipe is async, which upstream's server cannot call: write def pipe")
    pipeline.pipe = _wrap_pipe(pipe, path)
    if kind == MANIFOLD:
        pipeline.pipelines = _wrap_list(getattr(pipeline, "pipelines", None), path)


def error_place(error: BaseException, path: Path) -> str:
    """Return the error's type and its line in the pipeline, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{type(error).__name__} in line {lines[-1]}" if lines else type(error).__name__


def _wrap_pipe(pipe: Callable[..., Any], path: Path) -> Callable[..., Any]:
    """Report a failure within a stream as an event, and any other as an HTTP status."""

    def whole(**request: Any) -> Any:
        try:
            result = pipe(**request)
            known = isinstance(result, str | dict | BaseModel)
            return result if known else "".join(f"{piece}" for piece in result)
        except Exception as error:
            raise HTTPException(502, _message(error, path)) from None

    def stream(**request: Any) -> Iterator[Any]:
        try:
            result = pipe(**request)
            if isinstance(result, Iterator):
                yield from result
            else:
                yield result if isinstance(result, dict | BaseModel) else f"{result}"
        except Exception as error:
            # Otherwise the answer would end as if it were complete.
            yield {"error": {"message": _message(error, path)}}

    def run(**request: Any) -> Any:
        return stream(**request) if request["body"].get("stream") else whole(**request)

    return run


def _message(error: Exception, path: Path) -> str:
    """Return a message for the user; neither it nor the log quotes an unexpected error."""
    if isinstance(error, PipelineError):
        log.warning("%s has no answer", path.name)
        return str(error)
    log.error("%s failed: %s", path.name, error_place(error, path))
    return f"The pipeline {path.stem} failed; the house's log shows where."


def _wrap_list(given: Any, path: Path) -> Callable[[], list[dict[str, Any]]]:
    """List a manifold's models safely; upstream's server does so at each request of any user."""

    def safe_list() -> list[dict[str, Any]]:
        try:
            models = given() if callable(given) else given
            return [{**one, "id": str(one["id"]), "name": str(one["name"])} for one in models]
        except Exception as error:
            log.error("%s cannot list its models: %s", path.name, error_place(error, path))
            return []

    return safe_list
