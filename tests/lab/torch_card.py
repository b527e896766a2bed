"""Run as `torch_card.py WEIGHTS cuda|cpu TURNS`: how fast PyTorch's engine is, as a line of JSON.

Used as the server uses it, without HTTP: the first piece of fresh phrases, and as many characters
as the model takes at once.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

import torch

from hearth_kokoro.engines import StopSignal
from hearth_kokoro.engines.torch import TorchEngine
from hearth_kokoro.phonemes.phonemizer import Phonemizer
from hearth_kokoro.synthesis.synthesizer import Synthesizer
from hearth_kokoro.synthesis.text_buffer import TextBuffer
from hearth_kokoro.voices import Voices

NAMES = ("Anna", "Boris", "Clara", "David", "Emma", "Felix", "Greta", "Henry", "Ida", "Jonas")


def main(folder: Path, device: str, turns: int) -> dict[str, object]:
    """Return the card, the first sounds in ms and the characters a second."""
    if device == "cuda" and not torch.cuda.is_available():
        return {"card": None}
    engine = TorchEngine(folder / "kokoro-v1_0.pth", device=device)
    voices, phonemizer = Voices.load(folder / "voices-v1.0.bin"), Phonemizer()
    ttfa_ms = asyncio.run(first_sounds(Synthesizer(engine, voices, phonemizer), voices, turns))
    text = "The kettle is on, and the house is quiet. " * min(9, turns)
    phonemes, heart = phonemizer.phonemes(text, "en-us"), voices.get("af_heart").styles
    rates = []
    for _ in range(turns + 1):
        began = time.perf_counter()
        engine.infer(phonemes, heart, 1.0, StopSignal())
        rates.append(len(text) / (time.perf_counter() - began))
    # The first one also loads its kernels and allocates its memory.
    return {
        "card": engine.provider,
        "torch": torch.__version__,
        "ttfa_ms": ttfa_ms,
        "rates": rates[1:],
    }


async def first_sounds(synthesizer: Synthesizer, voices: Voices, turns: int) -> list[float]:
    """Return when the first piece of each phrase was there."""
    await synthesizer.start()
    found = []
    for name in NAMES[:turns]:
        text = f"{name} came home late that evening. Nobody had expected anything else of him."
        began = time.perf_counter()
        segments = synthesizer.speak(TextBuffer.of(text, "en-us"), voices.get("af_heart"))
        await anext(segments)
        found.append(1000 * (time.perf_counter() - began))
        await segments.aclose()
    await synthesizer.close()
    return found


if __name__ == "__main__":
    print("RESULT " + json.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
