"""Provide the fake Ollama and the house fixture to every test."""

from __future__ import annotations

import sys
from pathlib import Path

# Import mode "importlib" adds no folder to the path.
sys.path.insert(0, str(Path(__file__).parent.parent))

from fake_ollama import fake, house

__all__ = ["fake", "house"]
