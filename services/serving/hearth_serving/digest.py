"""The digest of a model's file."""

import hashlib
from pathlib import Path


def sha256_of(path: Path) -> str:
    """Return the digest of a file."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
