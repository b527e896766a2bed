"""The word error rate of a server: of the recordings that come along, or of a person's own."""

from __future__ import annotations

from pathlib import Path

from hearth.bench.stt.call import transcribe
from hearth.bench.stt.report.figures import Words
from hearth.bench.stt.target import Target
from hearth.clients import ClientError
from hearth.clients.recordings import Utterance, read_audio, utterances
from hearth.clients.word_error_rate import NOT_UNDERSTOOD, error_rate, words_of

_KINDS = (3, 10, 30)
_ENOUGH = 2


async def wrongly(target: Target, folder: Path | None) -> Words:
    """Let every recording be written, and count what is wrong.

    Where hardly a word is right nothing was measured: such weights are made up, or of another
    language.

    Raises:
        ClientError: a recording cannot be read.
    """
    spoken = own(folder) if folder else [one for kind in _KINDS for one in utterances(kind)]
    pairs: list[tuple[str, str]] = []
    for one in spoken:
        written = await transcribe(target.client, target.server, one.pcm)
        if written.error:
            return Words(None, 0, 0, written.error, failed=True)
        pairs.append((one.text, written.text))
        # Two of them tell: the rest would say the same, and take as long as real words.
        if len(pairs) == _ENOUGH and (error_rate(pairs) or 0) > NOT_UNDERSTOOD:
            break
    rate = error_rate(pairs)
    words = sum(len(words_of(said)) for said, _ in pairs)
    if rate is None or rate > NOT_UNDERSTOOD:
        why = "hardly a word is right: made-up weights, or another language" if pairs else ""
        return Words(None, len(pairs), words, why or "no recording has words")
    return Words(rate, len(pairs), words, "")


def own(folder: Path) -> list[Utterance]:
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
            found.append(Utterance(path.stem, 0, words, read_audio(path)))
    if not found:
        raise ClientError(f"{folder}: no recording with its words beside it (a.wav and a.txt)")
    return found
