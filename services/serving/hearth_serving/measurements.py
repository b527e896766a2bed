"""What one start measured, stored for the next one in state/choice.json."""

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hearth_serving.errors import ServiceError

log = logging.getLogger(__name__)

# A valid file has a few kB.
_MAX_BYTES = 1_000_000
_MORE_THREADS = 0.9
# While other programs run, as when a whole house starts, fewer threads look faster than they are.
# The stored choice must hold afterwards, too.
_FEWER_THREADS = 0.75


class Measurement(BaseModel):
    """One candidate: its best seconds of work per second of audio."""

    model_config = ConfigDict(frozen=True, strict=True)

    model: str
    threads: Annotated[int, Field(gt=0)]
    rtf: Annotated[float, Field(ge=0, allow_inf_nan=False)]


def best_threads(measured: Sequence[Measurement], cores: int) -> Measurement:
    """Return the measurement with the best number of threads, with a bias to one per core.

    More threads than cores must be 10 % faster than one per core, fewer 25 %, so that a busy
    neighbour does not leave cores idle for ever.
    """

    def weighted(one: Measurement) -> float:
        if one.threads == cores:
            return one.rtf
        return one.rtf / (_MORE_THREADS if one.threads > cores else _FEWER_THREADS)

    return min(measured, key=weighted)


def sha256_of(path: Path) -> str:
    """Return the digest of a file."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


class _File(BaseModel):
    model_config = ConfigDict(strict=True)

    mark: list[int]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Content(BaseModel):
    model_config = ConfigDict(strict=True)

    # Increased when the file's shape changes, or how a candidate is measured.
    version: Literal[1] = 1
    files: dict[str, _File] = {}
    key: dict[str, Any] = {}
    measured: list[Measurement] = []


class MeasurementCache:
    """One small file; without a folder, or with a damaged file, the cache is empty."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / "choice.json" if folder else None
        self._content = self._read()

    def sha256(self, model: Path) -> str:
        """Return a model's digest, computed again only when size, time or inode changed."""
        try:
            at = model.stat()
            mark = [at.st_size, at.st_mtime_ns, at.st_ino]
            known = self._content.files.get(str(model))
            if known is None or known.mark != mark:
                known = _File(mark=mark, sha256=sha256_of(model))
                self._content.files[str(model)] = known
                self._write()
        except OSError as error:
            raise ServiceError(f"no model at {model}: {error.strerror}") from error
        return known.sha256

    def load(self, key: Mapping[str, Any]) -> tuple[Measurement, ...]:
        """Return what was measured for exactly this key, or nothing."""
        return tuple(self._content.measured) if self._content.key == key else ()

    def store(self, key: Mapping[str, Any], measured: Sequence[Measurement]) -> None:
        """Store these measurements instead of the previous ones."""
        self._content.key, self._content.measured = dict(key), list(measured)
        self._write()

    def _read(self) -> _Content:
        if self._path is None:
            return _Content()
        try:
            with self._path.open("rb") as file:
                return _Content.model_validate_json(file.read(_MAX_BYTES))
        except FileNotFoundError:
            return _Content()
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged or not ours"
            log.warning("%s is not read, so it is measured again: %s", self._path, reason)
            return _Content()

    def _write(self) -> None:
        if self._path is None:
            return
        unfinished = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(self._content.model_dump_json(indent=1), encoding="utf-8")
            os.replace(unfinished, self._path)
        except (OSError, ValueError) as error:  # a path may not be encodable as text
            log.warning(
                "%s cannot be written, so it is measured at every start: %s", self._path, error
            )
