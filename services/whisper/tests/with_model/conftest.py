"""The smallest network in its real shape, with random weights."""

from pathlib import Path

import pytest

from hearth_whisper.recognition.whisper import WhisperRecogniser

from .models import made_up


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the multilingual model."""
    return made_up("tiny", tmp_path_factory)


@pytest.fixture(scope="session")
def tiny_en(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the English model."""
    return made_up("tiny.en", tmp_path_factory)


@pytest.fixture(scope="session")
def model(tiny: Path) -> WhisperRecogniser:
    """Return the multilingual model, loaded."""
    return WhisperRecogniser(tiny, "cpu", 2)
