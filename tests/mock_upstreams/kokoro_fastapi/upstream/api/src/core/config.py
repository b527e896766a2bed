"""What can be set from outside: as upstream, by environment variables."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Settings:
    """Where its files are, and how much text it gives to the model at once."""

    voices_dir: Path = field(
        default_factory=lambda: Path(os.environ.get("VOICES_DIR", _ROOT / "api/src/voices/v1_0"))
    )
    web_dir: Path = _ROOT / "web"
    default_voice: str = "af_heart"
    target_max_tokens: int = 250
    version: str = field(default_factory=lambda: (_ROOT / "VERSION").read_text().strip())


settings = Settings()
