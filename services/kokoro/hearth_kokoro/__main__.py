"""Run the speech server: `hearth-kokoro --model FILE --voices FILE`."""

import argparse
import contextlib
import ipaddress
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hearth_kokoro.errors import SpeechError
from hearth_kokoro.web.settings import Limits

_EXAMPLES = """\
examples:
  hearth-kokoro --model kokoro-v1.0.onnx --voices voices-v1.0.bin
  hearth-kokoro --model kokoro-v1.0.onnx --model kokoro-v1.0.int8.onnx \\
      --voices voices-v1.0.bin
  HEARTH_KOKORO_KEY=... hearth-kokoro --model FILE --voices FILE --host 0.0.0.0

then:
  curl localhost:8880/v1/audio/speech -d '{"input": "Hello there."}' -o hello.mp3
"""
_DEFAULT = Limits()


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; 2 and one line on stderr when it cannot."""
    options = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    # Of uvicorn's own lines none is for people: strangers' garbage, and who was cut off.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    try:
        key = _key(options.key_file)
        for file in (*options.model, options.voices):
            if not file.is_file():
                raise SpeechError(f"{file}: no such file")
        if not options.open:
            _warn_if_open(options.host, key)
        options.state = _kept_in(options.state)
        # Imported late: --help and a wrong path need no half second of libraries.
        from hearth_kokoro.web.serve import serve

        serve(options, key, Limits(text_characters=options.text_limit, total_s=options.time_limit))
    except SpeechError as error:
        print(f"hearth-kokoro: {error}", file=sys.stderr)
        return 2
    return 0


def _key(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get("HEARTH_KOKORO_KEY") or None
    try:
        key = file.read_text().strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        raise SpeechError(f"--key-file {file}: {reason}") from None
    if not key or "\n" in key:
        raise SpeechError(f"--key-file {file}: write one key in it, in one line")
    return key


def _warn_if_open(host: str, key: str | None) -> None:
    try:
        inside = ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = host == "localhost"
    if key is None and not inside:
        logging.warning("no key: whoever reaches %s may use this server (HEARTH_KOKORO_KEY)", host)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hearth-kokoro",
        description="Speech that starts at once: an OpenAI-compatible server for Kokoro.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", type=Path, action="append", required=True, metavar="FILE",
        help="the model; given several times, the fastest one here is taken")  # fmt: skip
    add("--voices", type=Path, required=True, metavar="FILE", help="such as voices-v1.0.bin")
    add("--engine", choices=("auto", "onnx", "torch"), default="auto",
        help="auto: torch for .pth files, else onnx (default)")  # fmt: skip
    add("--host", default="127.0.0.1", help="default %(default)s")
    add("--port", type=int, default=8880, help="default %(default)s")
    add("--state", type=Path, metavar="DIR", default=_state(),
        help="remembers what was measured here (default %(default)s)")  # fmt: skip
    add("--key-file", type=Path, metavar="FILE",
        help="the key that clients send (default $HEARTH_KOKORO_KEY; none: open)")  # fmt: skip
    add("--open", action="store_true",
        help="without a key on purpose: no warning at the start")  # fmt: skip
    add("--origin", action="append", default=[], metavar="URL",
        help="a web page's origin that may use this server, such as https://chat.lan")  # fmt: skip
    add("--text-limit", type=int, metavar="N", default=_DEFAULT.text_characters,
        help="most characters of one text (default %(default)s)")  # fmt: skip
    add("--time-limit", type=float, metavar="S", default=_DEFAULT.total_s,
        help="most seconds of one request (default %(default)g)")  # fmt: skip
    return parser


def _state() -> Path:
    if folder := os.environ.get("STATE_DIRECTORY"):
        return Path(folder)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    with contextlib.suppress(RuntimeError):  # somebody without a home
        caches = caches.expanduser()
    return caches / "hearth-kokoro"


def _kept_in(folder: Path) -> Path | None:
    """Return the folder, made where it is missing; None, said in one line, if it takes no file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        reason = error.strerror or str(error)
        logging.warning("%s: %s; so it is measured at every start (--state)", folder, reason)
        return None


if __name__ == "__main__":
    sys.exit(main())
