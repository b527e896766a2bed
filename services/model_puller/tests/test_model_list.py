from __future__ import annotations

import json
from pathlib import Path

import pytest

from hearth_model_puller import PullerError
from hearth_model_puller.model_list import hex_digest, key_of, read_model_list


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_the_smallest_of_first_is_pulled_first_and_the_others_by_size(tmp_path: Path) -> None:
    sizes = {"big": 9, "mid": 5, "mini": 3, "tiny": 1}
    models = [{"name": n, "id": n, "download_bytes": s} for n, s in sizes.items()]
    path = write(tmp_path / "m.json", {"models": models, "first": ["big", "mid"]})
    assert [m.id for m in read_model_list(path).models] == ["mid", "tiny", "mini", "big"]


def test_two_names_of_one_model_are_pulled_once(tmp_path: Path) -> None:
    models = [
        {"name": "a", "id": "llama3.1", "download_bytes": 5, "digest": None},
        {"name": "b", "id": "library/llama3.1:latest", "memory_bytes": 7, "digest": "sha256:AB"},
    ]
    (only,) = read_model_list(write(tmp_path / "m.json", {"models": models})).models
    assert only.names == ("a", "b")
    assert (only.download_bytes, only.memory_bytes, only.digest) == (5, 7, "ab")


@pytest.mark.parametrize(
    ("spelling", "key"),
    [
        ("llama3.1", "llama3.1:latest"),
        ("Qwen3.5:4B", "qwen3.5:4b"),
        ("registry.ollama.ai/library/qwen3.5:4b", "qwen3.5:4b"),
        ("hf.co/someone/Thing-GGUF:Q4_K_M", "hf.co/someone/thing-gguf:q4_k_m"),
        ("localhost:5000/x/y", "localhost:5000/x/y:latest"),
    ],
)
def test_all_spellings_of_a_model_have_one_key(spelling: str, key: str) -> None:
    assert key_of(spelling) == key


def test_unverified_means_no_digest() -> None:
    assert hex_digest("unverified") is None
    assert hex_digest("sha256:AA") == "aa"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"models": [{"id": "x"}]}', '{"models": 1}'])
def test_an_invalid_list_is_reported_in_one_line_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "models.json"
    path.write_text(text)
    with pytest.raises(PullerError) as caught:
        read_model_list(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
