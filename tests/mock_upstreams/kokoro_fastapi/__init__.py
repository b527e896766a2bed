"""Upstream's Kokoro-FastAPI in miniature: its shape and its archive, with a scripted engine."""

from tests.mock_upstreams.kokoro_fastapi.archive import REPOSITORY, TAG, UPSTREAM, prepare

__all__ = ["REPOSITORY", "TAG", "UPSTREAM", "prepare"]
