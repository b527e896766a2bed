"""Whether a volume exists that a restore would replace: a silent engine is an error."""

from __future__ import annotations

from pathlib import Path

import pylxd.exceptions
import pytest

from hearth.machine import engine


def test_a_machine_without_an_engine_has_no_volumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "SOCKET", str(tmp_path / "none"))
    assert not engine.has_volume("open-webui-data")


def test_an_engine_that_does_not_answer_reports_no_volumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> None:
        raise pylxd.exceptions.ClientConnectionFailed

    (tmp_path / "socket").touch()
    monkeypatch.setattr(engine, "SOCKET", str(tmp_path / "socket"))
    monkeypatch.setattr(engine, "_client", silent)
    with pytest.raises(engine.EngineError, match="Incus does not answer"):
        engine.has_volume("open-webui-data")
