"""Run inside the small Debian of test_torch_engine: what PyTorch's engine does, as a line of JSON.

Few and short inferences: on a processor PyTorch takes seconds for each.
"""

import json
import threading
import time
from pathlib import Path

from hearth_kokoro.engines import SAMPLE_RATE, Engine, InferenceStopped, StopSignal, Styles
from hearth_kokoro.engines.onnx import OnnxEngine
from hearth_kokoro.engines.torch import TorchEngine, has_cuda_gpu
from hearth_kokoro.phonemes.phonemizer import Phonemizer
from hearth_kokoro.voices import Voices

WEIGHTS = Path("/srv/weights")
torch = TorchEngine(WEIGHTS / "kokoro-v1_0.pth")
voices = Voices.load(WEIGHTS / "voices-v1.0.bin")
heart, fable = voices.get("af_heart").styles, voices.get("bm_fable").styles
words = Phonemizer().phonemes("Hello there.", "en-us")
peaks: list[float] = []


def seconds(engine: Engine, phonemes: str, voice: Styles, speed: float = 1.0) -> float:
    """Return the length of the sound that an engine generates from these phonemes."""
    sound = engine.infer(phonemes, voice, speed, StopSignal())
    peaks.append(float(abs(sound).max(initial=0)))
    return sound.size / SAMPLE_RATE


def stopped_ms() -> float:
    """Return how long a long inference goes on after its stop."""
    stop, at = StopSignal(), [0.0]

    def set_it() -> None:
        at[0] = time.perf_counter()
        stop.set()

    threading.Timer(0.3, set_it).start()
    try:
        torch.infer(words * 20, heart, 1.0, stop)
    except InferenceStopped:
        return 1000 * (time.perf_counter() - at[0])
    raise AssertionError("it was not stopped")


names = [name for name, _ in torch._model.named_parameters()]
result = {
    "card": has_cuda_gpu(),
    "provider": torch.provider,
    "sha256": torch.model_sha256,
    "normed": sum(name.endswith(("weight_g", "weight_v")) for name in names),
    "nothing": seconds(torch, "", heart),
    "words": seconds(torch, words, heart),
    "fast": seconds(torch, words, fable, 2.0),
    "peak": max(peaks),
    "by_onnx": seconds(OnnxEngine(WEIGHTS / "kokoro-v1.0.onnx", 2), words, heart),
    "stopped_ms": stopped_ms(),
}
print("RESULT " + json.dumps(result))
