"""espeak-ng in a process of its own: it dies of some texts, and the speech server must not.

Run as a program it answers each line of JSON on its input, [language, [words, ...]], by one line
with the phonemes of each; it ends with its input.
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
"""What stands between the letters of one phoneme."""
# Of espeak-ng's speak_lib.h: no sound device, no exit when its data is missing, UTF-8, and IPA
# with ties.
_RETRIEVAL, _DONT_EXIT, _UTF8 = 1, 0x8000, 1
_TIED_IPA = 0x02 | 0x80 | ord(TIE) << 8
# It says where it reads a foreign word by that language's rules: "(en)" and later "(fr)"; with
# ties even within these.
_SWITCH = re.compile(r"\([a-z^-]+\)")
_START_S, _ANSWER_S = 20.0, 5.0


class Espeak:
    """A running espeak-ng; one caller at a time. It is started anew when a text has killed it."""

    def __init__(self) -> None:
        """Start it with every language loaded, so that no request waits for one."""
        self._process = _launch()
        self._end = weakref.finalize(self, _stop, self._process)
        self._warm_up()

    def say(self, language: str, words: Sequence[str]) -> list[str]:
        """Return the phonemes of each; ServiceError where it dies of them or takes too long."""
        try:
            return self._ask(language, words, _ANSWER_S)
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
                self._ask(language, ["1"], _START_S)
        except _LostError:
            raise ServiceError("espeak-ng does not start", status=500) from None

    def _ask(self, language: str, words: Sequence[str], within_s: float) -> list[str]:
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None  # noqa: S101 - both are pipes
        assert answered is not None  # noqa: S101
        try:
            asked.write(json.dumps([language, list(words)]).encode() + b"\n")
            asked.flush()
        except OSError:
            raise _LostError from None
        said: list[str] = json.loads(_line(answered.fileno(), within_s))
        return said


class _LostError(Exception):
    """It is gone, or does not answer."""


def _line(handle: int, within_s: float) -> bytes:
    """Return the next line of a pipe on which nothing comes unasked."""
    deadline, said = time.monotonic() + within_s, b""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    while not said.endswith(b"\n"):
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not poll.poll(left_s * 1000):
            raise _LostError
        chunk = os.read(handle, 1 << 16)
        if not chunk:
            raise _LostError
        said += chunk
    return said


def _launch() -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own module by our own interpreter
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # What a library writes of a text is nobody's to keep.
        stderr=subprocess.DEVNULL,
        # Of the server's environment, which may hold its key, it needs nothing.
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


def _say(library: ctypes.CDLL, text: str) -> str:
    """Return espeak's phonemes for words without punctuation."""
    # It takes a C string, which ends at the first null.
    words = text.replace("\0", " ")
    if not words.strip():
        return text
    left = ctypes.c_char_p(words.encode("utf-8", "ignore"))
    said: list[str] = []
    while left:
        found = library.espeak_TextToPhonemes(ctypes.byref(left), _UTF8, _TIED_IPA)
        said.append((found or b"").decode("utf-8", "replace"))
    return _SWITCH.sub("", " ".join(said))


def main() -> None:
    """Answer line by line."""
    library, speaking = _load(), ""
    for line in sys.stdin.buffer:
        language, words = json.loads(line)
        if language != speaking:
            if library.espeak_SetVoiceByName(VOICES[language]) != 0:
                sys.exit(1)
            speaking = language
        answer = json.dumps([_say(library, one) for one in words])
        sys.stdout.buffer.write(answer.encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
