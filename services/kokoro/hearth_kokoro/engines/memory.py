"""What one start measured, kept for the next: state/choice.json."""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hearth_kokoro.engines.digest import sha256_of
from hearth_kokoro.errors import SpeechError

log = logging.getLogger(__name__)

# Raised when the file's shape changes, or how a candidate is measured.
_VERSION = 1


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
        except OSError as error:
            raise SpeechError(f"no model at {model}: {error.strerror}") from error
        mark = [at.st_size, at.st_mtime_ns, at.st_ino]
        files = self._content.setdefault("files", {})
        known = files.get(str(model))
        if not isinstance(known, dict) or known.get("mark") != mark:
            files[str(model)] = known = {"mark": mark, "sha256": sha256_of(model)}
            self._write()
        digest: str = known["sha256"]
        return digest

    def recall(self, key: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what was measured for exactly this key, or nothing."""
        found: list[dict[str, Any]] = self._content.get("measured", [])
        return found if self._content.get("key") == key else []

    def keep(self, key: Mapping[str, Any], measured: Sequence[Mapping[str, Any]]) -> None:
        """Remember this, instead of what was there."""
        self._content |= {"key": dict(key), "measured": [dict(row) for row in measured]}
        self._write()

    def _read(self) -> dict[str, Any]:
        try:
            text = self._path.read_text(encoding="utf-8") if self._path else "{}"
            found = json.loads(text)
        except (OSError, ValueError):
            found = None
        is_ours = isinstance(found, dict) and found.get("version") == _VERSION
        return found if is_ours else {"version": _VERSION}

    def _write(self) -> None:
        if self._path is None:
            return
        unfinished = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(json.dumps(self._content, indent=1), encoding="utf-8")
            os.replace(unfinished, self._path)
        except OSError as error:
            log.warning(
                "%s cannot be kept, so it is measured at every start: %s", self._path, error
            )
