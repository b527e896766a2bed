"""Offers the fake Ollama and the house around it to every test here."""

from __future__ import annotations

import sys
from pathlib import Path

# The tests run by import mode "importlib", which puts no folder on the path.
sys.path.insert(0, str(Path(__file__).parent.parent))

from fake_ollama import fake, house

__all__ = ["fake", "house"]
