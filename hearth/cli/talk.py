"""`hearth talk`: ask the house by voice, with a recording, and see where the time goes."""

import sys
import wave
from pathlib import Path
from typing import Annotated

import typer

from hearth.cli.console import AsJson, err, print_json
from hearth.clients.calls import RATE, Turn, ask, read_wav, site_for_calls
from hearth.clients.endpoints import house_edge
from hearth.project import VERIFIER, current

_WITHIN_S = 180.0
_NAMES = {
    "silence": "pause",
    "transcription": "your words",
    "model": "first word",
    "voice": "first sound",
}


def ask_by_voice(
    recording: Annotated[
        Path, typer.Argument(metavar="FILE", help="A question as a WAV file of 16 bit.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the answer's sound there.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask the house with a recorded question; print both texts, and the stages of the turn.

    The times go to stderr. Record a question with: arecord -f S16_LE -d 5 question.wav

    Example: hearth talk question.wav --out answer.wav
    """
    sound, project = read_wav(recording), current()
    house = project.house()
    site, edge = site_for_calls(house), house_edge(house)
    turn = ask(edge.endpoint(site.fqdn, project.vault.get(VERIFIER)), sound, _WITHIN_S)
    if out:
        with wave.open(str(out), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(bytes(turn.sound))
    if as_json:
        texts = {"question": turn.question, "answer": turn.answer.strip()}
        print_json({**texts, "waits_ms": turn.waits_ms, "stages": turn.stages})
        return
    sys.stdout.write(f"You: {_line(turn.question)}\nHouse: {_line(turn.answer)}\n")
    _show(turn)


def _show(turn: Turn) -> None:
    for name, length_ms in turn.lengths_ms.items():
        err.print(f"{_NAMES[name]:>12} {length_ms:6.0f} ms", markup=False, style="dim")
    early = ", started in your pause" if turn.is_early else ""
    err.print(f"{'answer after':>12} {turn.waits_ms:6.0f} ms{early}", markup=False)


def _line(text: str) -> str:
    """Leave out what a terminal would obey."""
    return "".join(letter for letter in text if letter.isprintable()).strip()
