"""Models with random weights in the exact format: the lab's if they exist, else our own."""

import os
from pathlib import Path

import pytest

from tests.mock_upstreams.__main__ import DEFAULT_CACHE
from tests.mock_upstreams.whisper import prepare


def made_up(size: str, factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a size's files; tests must not change it."""
    writable = DEFAULT_CACHE.is_dir() and os.access(DEFAULT_CACHE, os.W_OK)
    return prepare(DEFAULT_CACHE if writable else factory.getbasetemp().parent, size)
