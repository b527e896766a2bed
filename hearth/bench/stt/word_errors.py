"""The word error rate of an STT server, on the shipped recordings or on a person's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hearth.bench.session import MeasuredServer
from hearth.bench.stt.requests import SttCase, SttSample, transcribe
from hearth.clients import ClientError
from hearth.clients.recordings import Utterance, read_audio, utterances
from hearth.clients.stats import NOT_UNDERSTOOD, error_rate, words_of

_LENGTHS = (3, 10, 30)
# Two texts are enough to see that a model does not know the language.
_ENOUGH = 2


@dataclass(frozen=True, slots=True)
class WordErrors:
    """The word error rate; `rate` is None where it was not measured, with the reason.

    `failed` means that the server did not answer, not that its words could not be counted.
    """

    rate: float | None
    texts: int
    words: int
    reason: str
    failed: bool = False


@dataclass(slots=True)
class SttServer(MeasuredServer[SttCase, SttSample]):
    """One STT server; `streams` is False once it has shown that it has none."""

    streams: bool = True
    words: WordErrors | None = None


async def count_word_errors(server: SttServer, folder: Path | None) -> None:
    """Transcribe every recording, and compare the words; the result is the server's `words`.

    A server that gets hardly a word right is not measured: its weights are made up, or of another
    language.

    Raises:
        ClientError: a recording cannot be read.
    """
    spoken = own_recordings(folder) if folder else [u for s in _LENGTHS for u in utterances(s)]
    pairs: list[tuple[str, str]] = []
    for one in spoken:
        result = await transcribe(server.client, server.endpoint, one.pcm)
        if result.error:
            server.words = WordErrors(None, 0, 0, result.error, failed=True)
            return
        pairs.append((one.text, result.text))
        if len(pairs) == _ENOUGH and (error_rate(pairs) or 0) > NOT_UNDERSTOOD:
            break
    rate, reason = error_rate(pairs), ""
    if rate is None or rate > NOT_UNDERSTOOD:
        rate, reason = None, "hardly a word is right: made-up weights, or another language"
    words = sum(len(words_of(text)) for text, _ in pairs)
    server.words = WordErrors(rate, len(pairs), words, reason)


def own_recordings(folder: Path) -> list[Utterance]:
    """Return a person's recordings, each with its words beside it in a file that ends in .txt.

    Raises:
        ClientError: there is none, or one cannot be read.
    """
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        text = path.with_suffix(".txt")
        if path != text and text.is_file():
            try:
                words = text.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ClientError(f"{text}: {error}") from error
            found.append(Utterance(words, read_audio(path)))
    if not found:
        raise ClientError(f"{folder}: no recording with its text beside it (a.wav and a.txt)")
    return found
