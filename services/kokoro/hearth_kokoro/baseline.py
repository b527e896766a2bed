"""Measures bare inferences, the lower limit for any server, for comparison with a server.

Reads lines of JSON {"text": ..., "language": optional} and prints one line for each. Tokenizing
the text and converting it to phonemes are not timed.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from hearth_kokoro.engines import SAMPLE_RATE, Engine, StopSignal
from hearth_kokoro.engines.onnx import OnnxEngine
from hearth_kokoro.phonemes.phonemizer import Phonemizer
from hearth_kokoro.synthesis.segmentation import split_phonemes, spoken_text
from hearth_kokoro.text.tokenizer import tokenize
from hearth_kokoro.voices import Voice, Voices
from hearth_serving.errors import ServiceError
from hearth_serving.machine import this_machine


def main(arguments: list[str] | None = None) -> int:
    """Respond to every line of standard input; a failure is one line and exit code 1."""
    options = _parser().parse_args(arguments)
    try:
        voice = Voices.load(options.voices).get(options.voice)
        engine = OnnxEngine(options.model, options.threads or this_machine().cores)
        phonemizer = Phonemizer()
        # The first inference of a session also allocates memory.
        engine.infer(phonemizer.phonemes("Ready.", voice.language), voice.styles, 1.0, StopSignal())
        for line in sys.stdin:
            if line.strip():
                result = _measure(engine, phonemizer, voice, json.loads(line), options.repeat)
                print(json.dumps(result, ensure_ascii=False), flush=True)
    except (ServiceError, ValueError, KeyError) as error:
        print(f"hearth_kokoro.baseline: {error}", file=sys.stderr)
        return 1
    return 0


def _measure(
    engine: Engine, phonemizer: Phonemizer, voice: Voice, request: dict[str, Any], repeat: int
) -> dict[str, Any]:
    """Synthesise one text `repeat` times, each in as few inferences as the model allows."""
    text, language = str(request["text"]), str(request.get("language") or voice.language)
    phonemes = phonemizer.phonemes(spoken_text(tokenize(text, language)), language)
    seconds, samples = [], 0
    for _ in range(repeat):
        started = time.perf_counter()
        sounds = [
            engine.infer(p, voice.styles, 1.0, StopSignal()) for p in split_phonemes(phonemes)
        ]
        seconds.append(time.perf_counter() - started)
        samples = sum(sound.size for sound in sounds)
    audio_s = samples / SAMPLE_RATE
    return {"text": text, "phonemes": phonemes, "seconds": seconds, "audio_s": audio_s}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hearth_kokoro.baseline", description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--voices", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=0, help="default: the physical cores")
    parser.add_argument("--voice", default="af_heart")
    parser.add_argument("--repeat", type=int, default=1)
    return parser


if __name__ == "__main__":
    sys.exit(main())
