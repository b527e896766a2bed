"""Writes the files that each release has, under their names, once per recipe."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from pathlib import Path

import ctranslate2

from hearth.files import locked
from tests.mock_upstreams.whisper import sizes, weights, words
from tests.mock_upstreams.whisper.sizes import SIZES, Size

# Raised when the bytes change for another reason than the files and versions below.
RECIPE = 1
_KEPT_S = 24 * 3600
_WRITE_S = 600
_PREPROCESSOR = {
    "chunk_length": 30,
    "feature_extractor_type": "WhisperFeatureExtractor",
    "hop_length": 160,
    "n_fft": 400,
    "n_samples": 480_000,
    "nb_max_frames": 3000,
    "padding_side": "right",
    "padding_value": 0.0,
    "processor_class": "WhisperProcessor",
    "return_attention_mask": False,
    "sampling_rate": 16_000,
}


def _names(size: Size) -> tuple[str, ...]:
    young = ("preprocessor_config.json",) if size.has_preprocessor else ()
    vocabulary = "vocabulary.json" if size.has_preprocessor else "vocabulary.txt"
    return ("config.json", "model.bin", *young, "tokenizer.json", vocabulary)


FILES = {name: _names(size) for name, size in SIZES.items()}


def prepare(cache: Path, name: str) -> Path:
    """Return the folder with the files of one size, written unless the cache holds it."""
    target = cache / "whisper" / _recipe_digest() / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # Another lab or test waits meanwhile, and finds it made. One lock for all
    # sizes: two that forget at once would remove the same files.
    with locked(target.with_name(".lock"), within_s=_WRITE_S):
        if not target.exists():
            _write(target, SIZES[name])
        _forget(target.parent)
    return target


def _write(target: Path, size: Size) -> None:
    # On the cache's own file system, so that the folder appears whole or not at all.
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        folder = Path(scratch) / target.name
        folder.mkdir()
        tokens = words.vocabulary(size)
        weights.write(size, tokens, folder)
        (folder / "vocabulary.json").unlink(missing_ok=True)
        (folder / "tokenizer.json").write_text(words.tokenizer(tokens), encoding="utf-8")
        if size.has_preprocessor:
            described = {**_PREPROCESSOR, "feature_size": size.mels}
            (folder / "preprocessor_config.json").write_text(json.dumps(described, indent=2))
            text = json.dumps(tokens, ensure_ascii=False, indent=2)
            (folder / "vocabulary.json").write_text(text, encoding="utf-8")
        else:
            text = "".join(f"{token}\n" for token in tokens)
            (folder / "vocabulary.txt").write_text(text, encoding="utf-8")
        folder.chmod(0o755)
        folder.rename(target)


def _forget(kept: Path) -> None:
    """Remove what older recipes made; not today's, which another lab may serve."""
    for old in kept.parent.iterdir():
        if old != kept and time.time() - old.stat().st_mtime > _KEPT_S:
            shutil.rmtree(old)


def _recipe_digest() -> str:
    """Return the digest that names this recipe: same code and format, same folder."""
    digest = hashlib.sha256(f"{RECIPE} {ctranslate2.__version__}".encode())
    for module in (sizes, words, weights):
        digest.update(Path(module.__file__ or "").read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()[:16]
