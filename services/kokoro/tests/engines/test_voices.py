"""Voices and blends of them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hearth_kokoro.engines import Styles
from hearth_kokoro.voices import Voices
from hearth_serving.errors import ServiceError


@pytest.fixture
def voices() -> Voices:
    """Three voices, each filled with one number."""
    levels = {"af_heart": 1.0, "bm_fable": 4.0, "ef_dora": 7.0}
    return Voices({name: np.full((510, 1, 256), x, np.float32) for name, x in levels.items()})


def test_a_voice_knows_its_language(voices: Voices) -> None:
    assert voices.names == ("af_heart", "bm_fable", "ef_dora")
    assert [voices.get(name).language for name in voices.names] == ["en-us", "en-gb", "es"]


@pytest.mark.parametrize(
    ("requested", "level", "language"),
    [
        ("af_heart(2)+bm_fable(1)", 2.0, "en-us"),
        ("bm_fable+af_heart", 2.5, "en-gb"),
        ("af_heart(0.5) + ef_dora(0.5)", 4.0, "en-us"),
        ("af_heart(1)", 1.0, "en-us"),
        ("af_heart (2) + bm_fable (1)", 2.0, "en-us"),
        # As it arrives from the query of an address.
        ("af_heart(2) bm_fable(1)", 2.0, "en-us"),
    ],
)
def test_a_blend_is_the_weighted_mean(
    voices: Voices, requested: str, level: float, language: str
) -> None:
    voice = voices.get(requested)
    assert voice.language == language
    assert voice.name == requested
    assert voice.styles.shape == (510, 1, 256)
    assert voice.styles.dtype == np.float32
    np.testing.assert_allclose(voice.styles, level, rtol=1e-6)


def test_a_blend_is_computed_once_and_few_are_cached(voices: Voices) -> None:
    first = voices.get("af_heart(2)+bm_fable(1)")
    assert voices.get("af_heart(2)+bm_fable(1)") is first
    for weight in range(1, 200):
        voices.get(f"af_heart({weight})+bm_fable(1)")
    assert voices.get("af_heart(2)+bm_fable(1)") is not first


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ("af_hart", "there is no voice 'af_hart': did you mean af_heart?"),
        ("heart", "there is no voice 'heart': did you mean af_heart?"),
        ("zz", "there is no voice 'zz': GET /v1/audio/voices lists them"),
        ("", "there is no voice '': GET /v1/audio/voices lists them"),
        ("af_heart(2)+bm_fabel(1)", "there is no voice 'bm_fabel': did you mean bm_fable?"),
        ("af_heart+" * 8 + "af_heart", "a blend has at most 8 voices"),
        ("af_heart+" * 10_000 + "af_heart", "a blend has at most 8 voices"),
        ("af_heart+", "there is no voice '': GET /v1/audio/voices lists them"),
        ("af_heart(2", "there is no voice 'af_heart(2': did you mean af_heart?"),
        (
            "\x00" * 50,
            f"there is no voice {repr(chr(0) * 40)[:-1]}...': GET /v1/audio/voices lists them",
        ),
        ("x" * 5000, "a blend has at most 8 voices"),
    ],
)
def test_an_unknown_voice_is_rejected(voices: Voices, requested: str, message: str) -> None:
    with pytest.raises(ServiceError) as caught:
        voices.get(requested)
    assert str(caught.value) == message
    assert (caught.value.status, caught.value.param) == (400, "voice")


@pytest.mark.parametrize(
    "weight",
    ["0", "0.0", "-1", "nan", "NaN", "inf", "-inf", "1e308", "1e3", "10000", "0.00001", "1,5", "",
     "\u0663", "1_0", "(1)", "0x10"],
)  # fmt: skip
@pytest.mark.parametrize(
    "blend", ["af_heart({})", "af_heart({})+bm_fable(1)", "bm_fable+af_heart({})"]
)
def test_an_invalid_weight_is_rejected(voices: Voices, blend: str, weight: str) -> None:
    with pytest.raises(ServiceError) as caught:
        voices.get(blend.format(weight))
    assert str(caught.value) == f"a weight must be above 0 and at most 9999.9999, not {weight!r}"
    assert (caught.value.status, caught.value.param) == (400, "voice")


@pytest.mark.parametrize("blend", ["af_heart(0.0001)+bm_fable(9999.9999)", "af_heart(9999)"])
def test_extreme_weights_give_a_valid_voice(voices: Voices, blend: str) -> None:
    styles = voices.get(blend).styles
    assert np.isfinite(styles).all()
    assert 1 <= styles.min() <= styles.max() <= 4.001


def test_a_voices_file_is_loaded(tmp_path: Path, voices: Voices) -> None:
    path = tmp_path / "voices-v1.0.bin"
    with path.open("wb") as content:
        np.savez(content, allow_pickle=False, af_heart=voices.get("af_heart").styles)
    assert Voices.load(path).names == ("af_heart",)


@pytest.mark.parametrize("damage", ["empty", "garbage", "truncated", "flipped", "one array"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_broken_voices_file_is_one_line(
    tmp_path: Path, damage: str, save: Callable[..., None]
) -> None:
    path = tmp_path / "voices-v1.0.bin"
    with path.open("wb") as content:
        save(content, af_heart=np.random.default_rng(1).random((510, 1, 256), np.float32))
    whole = path.read_bytes()
    if damage == "one array":
        with path.open("wb") as content:
            np.save(content, np.zeros(3))
    else:
        half = len(whole) // 2
        broken = {
            "empty": b"",
            "garbage": b"nonsense" * 100,
            "truncated": whole[:half],
            "flipped": whole[:half]
            + bytes(b ^ 255 for b in whole[half : half + 99])
            + whole[half + 99 :],
        }
        path.write_bytes(broken[damage])
    with pytest.raises(
        ServiceError, match=r"voices-v1\.0\.bin is not a valid voices file"
    ) as caught:
        Voices.load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "found"),
    [
        ({"af_heart": np.zeros((510, 256), np.float32)}, "found af_heart"),
        ({"xx_nobody": np.zeros((510, 1, 256), np.float32)}, "found none"),
        ({}, "found none"),
    ],
)
def test_a_file_without_kokoros_voices_is_rejected(
    tmp_path: Path, arrays: dict[str, Styles], found: str
) -> None:
    path = tmp_path / "voices.bin"
    with path.open("wb") as content:
        np.savez(content, allow_pickle=False, **arrays)
    with pytest.raises(ServiceError, match=found):
        Voices.load(path)
