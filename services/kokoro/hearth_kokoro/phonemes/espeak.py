"""espeak-ng in a separate process, because some texts crash it.

As a program, this module reads lines of JSON, [language, [words, ...]], and prints a line with
the phonemes for each. It ends at the end of its input.
"""

import contextlib
import ctypes
import json
import os
import re
import select
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence

import espeakng_loader

from hearth_serving.errors import ServiceError

VOICES: Mapping[str, bytes] = {
    "en-us": b"gmw/en-US",
    "en-gb": b"gmw/en",
    "es": b"roa/es",
    "fr-fr": b"roa/fr",
    "hi": b"inc/hi",
    "it": b"roa/it",
    "pt-br": b"roa/pt-BR",
}
"""Language -> espeak-ng's name of its voice."""
TIE = "^"
"""The character between the letters of one phoneme."""
# Of espeak-ng's speak_lib.h: no sound device, no exit when its data is missing, UTF-8, and IPA
# with ties.
_RETRIEVAL, _DONT_EXIT, _UTF8 = 1, 0x8000, 1
_TIED_IPA = 0x02 | 0x80 | ord(TIE) << 8
# espeak-ng marks a foreign word by its language: "(en)" and later "(fr)", even with ties inside.
_SWITCH = re.compile(r"\([a-z^-]+\)")
_START_S, _ANSWER_S = 20.0, 5.0


class Espeak:
    """A running espeak-ng, for one caller at a time; it is restarted after a crash."""

    def __init__(self) -> None:
        """Start the process and load every language, so that no request waits for one."""
        self._process = _launch()
        self._end = weakref.finalize(self, _stop, self._process)
        self._warm_up()

    def phonemes(self, language: str, words: Sequence[str]) -> list[str]:
        """Return the phonemes of each item; ServiceError if espeak-ng crashes or hangs."""
        try:
            return self._request(language, words, _ANSWER_S)
        except _LostError:
            self._end()
            self._process = _launch()
            self._end = weakref.finalize(self, _stop, self._process)
            self._warm_up()
            raise ServiceError(
                "espeak-ng cannot process this text: remove its unusual characters",
                param="input",
                code="unreadable_text",
            ) from None

    def _warm_up(self) -> None:
        try:
            for language in VOICES:
                self._request(language, ["1"], _START_S)
        except _LostError:
            raise ServiceError("espeak-ng does not start", status=500) from None

    def _request(self, language: str, words: Sequence[str], within_s: float) -> list[str]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # noqa: S101 - both are pipes
        assert stdout is not None  # noqa: S101
        try:
            stdin.write(json.dumps([language, list(words)]).encode() + b"\n")
            stdin.flush()
        except OSError:
            raise _LostError from None
        phonemes: list[str] = json.loads(_read_line(stdout.fileno(), within_s))
        return phonemes


class _LostError(Exception):
    """The process has ended or does not respond."""


def _read_line(handle: int, within_s: float) -> bytes:
    """Return the response of one line from a pipe."""
    deadline, line = time.monotonic() + within_s, b""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    while not line.endswith(b"\n"):
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not poll.poll(left_s * 1000):
            raise _LostError
        chunk = os.read(handle, 1 << 16)
        if not chunk:
            raise _LostError
        line += chunk
    return line


def _launch() -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own module by our own interpreter
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A library's messages may contain the text, which is never logged.
        stderr=subprocess.DEVNULL,
        # The server's environment may contain its key, so it is not passed on.
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with contextlib.suppress(OSError):
        process.communicate(timeout=5)


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    library.espeak_TextToPhonemes.restype = ctypes.c_char_p
    folder = espeakng_loader.get_data_path().encode()
    if library.espeak_Initialize(_RETRIEVAL, 0, folder, _DONT_EXIT) <= 0:
        sys.exit(1)
    return library


def _phonemes(library: ctypes.CDLL, text: str) -> str:
    """Return espeak's phonemes for words without punctuation."""
    # A C string ends at the first null.
    words = text.replace("\0", " ")
    if not words.strip():
        return text
    left = ctypes.c_char_p(words.encode("utf-8", "ignore"))
    clauses: list[str] = []
    while left:
        found = library.espeak_TextToPhonemes(ctypes.byref(left), _UTF8, _TIED_IPA)
        clauses.append((found or b"").decode("utf-8", "replace"))
    return _SWITCH.sub("", " ".join(clauses))


def main() -> None:
    """Respond to each line of input."""
    library, current = _load(), ""
    for line in sys.stdin.buffer:
        language, words = json.loads(line)
        if language != current:
            if library.espeak_SetVoiceByName(VOICES[language]) != 0:
                sys.exit(1)
            current = language
        response = json.dumps([_phonemes(library, one) for one in words])
        sys.stdout.buffer.write(response.encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
