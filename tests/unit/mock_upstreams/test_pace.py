"""Connections share the link's speed, and no wait delays a stop."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.mock_upstreams.faults import CutError, Fault, Pace, read


def test_no_limit_does_not_wait() -> None:
    pace = Pace()
    assert pace.piece(1000) == 1000
    pace.wait(10**12)


def test_two_downloads_share_the_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(time, "sleep", waits.append)
    pace = Pace(bytes_per_s=1000)
    assert pace.piece(5000) == 100
    for _ in range(2):
        pace.wait(500)
    assert waits == [0.5, 1.0]


def test_a_cut_within_the_length_raises_after_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    chunks = read(path, 2, 8, Pace(), Fault(kind="cut", after_bytes=3))
    assert next(chunks) == b"234"
    with pytest.raises(CutError):
        next(chunks)


def test_a_cut_beyond_the_length_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert b"".join(read(path, 2, 8, Pace(), Fault(kind="cut", after_bytes=8))) == b"23456789"
