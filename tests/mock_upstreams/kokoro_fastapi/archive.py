"""Packs the miniature as GitHub packs a tag: in one folder, with the commit as a comment."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

REPOSITORY, TAG = "remsky/Kokoro-FastAPI", "v0.8.0"
UPSTREAM = Path(__file__).with_name("upstream")
# Upstream has one file for each of its voices in its repository; here their names are enough.
VOICES = ("af_heart", "bm_fable", "ef_dora")
_VOICE = "api/src/voices/v1_0/{}.pt"
_MODEL = "api/src/models/v1_0/config.json"
_COMMIT = "0" * 40
_LEFT_OUT = {"__pycache__"}


def prepare(cache: Path) -> Path:
    """Return the archive, written unless the cache holds it: the same bytes from the same files."""
    content = packed()
    digest = hashlib.sha256(content).hexdigest()[:16]
    target = cache / "kokoro_fastapi" / f"{digest}.tar.gz"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        # Two labs may prepare at once: the second replaces the file with an equal one.
        fresh = target.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.replace(target)
    return target


def packed() -> bytes:
    """Return the archive of the miniature."""
    top = f"{REPOSITORY.rpartition('/')[2]}-{TAG.removeprefix('v')}"
    plain = io.BytesIO()
    with tarfile.open(
        fileobj=plain, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": _COMMIT}
    ) as tar:
        for path, content in sorted(_files().items()):
            entry = tarfile.TarInfo(f"{top}/{path}")
            entry.size, entry.mode = len(content), 0o664
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


def _files() -> dict[str, bytes]:
    """Return the contents of all files by their paths."""
    made = {_VOICE.format(voice): b"made up\n" for voice in VOICES} | {_MODEL: b"{}\n"}
    return made | {
        str(path.relative_to(UPSTREAM)): path.read_bytes()
        for path in UPSTREAM.rglob("*")
        if path.is_file() and not _LEFT_OUT & set(path.parts)
    }
