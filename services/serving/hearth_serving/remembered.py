"""What one start measured, kept for the next: state/choice.json."""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hearth_serving.digest import sha256_of
from hearth_serving.errors import ServiceError

log = logging.getLogger(__name__)

# A few kB; a file that is longer is none of ours.
_MOST_BYTES = 1_000_000


class Measured(BaseModel):
    """One candidate: its best seconds of work per second of sound."""

    model_config = ConfigDict(frozen=True, strict=True)

    model: str
    threads: Annotated[int, Field(gt=0)]
    rtf: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _File(BaseModel):
    model_config = ConfigDict(strict=True)

    mark: list[int]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Content(BaseModel):
    model_config = ConfigDict(strict=True)

    # Raised when the file's shape changes, or how a candidate is measured.
    version: Literal[1] = 1
    files: dict[str, _File] = {}
    key: dict[str, Any] = {}
    measured: list[Measured] = []


class Memory:
    """One small file; without a folder, or with a broken file, it only remembers nothing."""

    def __init__(self, folder: Path | None) -> None:
        """Read what is there."""
        self._path = folder / "choice.json" if folder else None
        self._content = self._read()

    def sha256(self, model: Path) -> str:
        """Return a model's digest, computed anew only when size, time or inode changed."""
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

    def recall(self, key: Mapping[str, Any]) -> tuple[Measured, ...]:
        """Return what was measured for exactly this key, or nothing."""
        return tuple(self._content.measured) if self._content.key == key else ()

    def keep(self, key: Mapping[str, Any], measured: Sequence[Measured]) -> None:
        """Remember this, instead of what was there."""
        self._content.key, self._content.measured = dict(key), list(measured)
        self._write()

    def _read(self) -> _Content:
        if self._path is None:
            return _Content()
        try:
            with self._path.open("rb") as file:
                return _Content.model_validate_json(file.read(_MOST_BYTES))
        except FileNotFoundError:
            return _Content()
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is torn or not ours"
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
        except (OSError, ValueError) as error:  # a path may hold what is no text
            log.warning(
                "%s cannot be kept, so it is measured at every start: %s", self._path, error
            )
