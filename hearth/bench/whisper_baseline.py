"""The baseline of STT: the seconds of faster_whisper calls, without any server.

It also runs inside a service's instance, with faster_whisper and without the rest of Hearth.
Reads lines of JSON {"pcm": base64 of 16-bit mono at 16 kHz} and answers each with one line.
Loading the model is not timed, and a first call before everything is not counted.
"""

import argparse
import base64
import importlib
import json
import os
import sys
import time
from typing import Any


def main(arguments: list[str] | None = None) -> int:
    """Answer every line of standard input; a failure is one line and exit code 1."""
    options = _parser().parse_args(arguments)
    # Nothing may be fetched or reported, whatever the libraries' defaults are.
    os.environ.update(ORT_DISABLE_TELEMETRY="1", HF_HUB_OFFLINE="1")
    try:
        requests = [json.loads(line) for line in sys.stdin if line.strip()]
        sounds = [_samples(base64.b64decode(one["pcm"])) for one in requests]
        model = importlib.import_module("faster_whisper").WhisperModel(
            options.model,
            device=options.device,
            compute_type=options.compute_type,
            cpu_threads=options.threads,
            local_files_only=True,
        )
        # The first call of all is not counted.
        for number, sound in enumerate([*sounds[:1], *sounds]):
            start = time.perf_counter()
            segments, _ = model.transcribe(sound, language="en")
            # It computes while its segments are read.
            list(segments)
            if number:
                print(json.dumps({"seconds": [time.perf_counter() - start]}), flush=True)
    except (ImportError, OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        print(f"whisper_baseline: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


def _samples(pcm: bytes) -> Any:
    numpy = importlib.import_module("numpy")
    return numpy.frombuffer(pcm, "<i2").astype("float32") / 32768


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="whisper_baseline", description=__doc__)
    parser.add_argument("--model", required=True, help="a folder with a CTranslate2 model")
    parser.add_argument("--threads", type=int, default=0, help="default: the library's own")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compute-type", default="int8")
    return parser


if __name__ == "__main__":
    sys.exit(main())
