"""The command `hearth-whisper`: it reads the options and runs the server."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hearth_serving.command import (
    configure_logging,
    read_key,
    state_folder,
    warn_if_open,
    writable_folder,
)
from hearth_serving.errors import ServiceError
from hearth_whisper.limits import Limits

_EXAMPLES = """\
examples:
  hearth-whisper --model faster-whisper-small
  hearth-whisper --model faster-whisper-medium --model faster-whisper-base \\
      --draft faster-whisper-tiny
  HEARTH_WHISPER_KEY=... hearth-whisper --model DIR --host 0.0.0.0
  hearth-whisper --model DIR --wyoming-port 10300 --unload 600

then:
  curl localhost:8000/v1/audio/transcriptions -F file=@speech.wav
"""
_KEY = "HEARTH_WHISPER_KEY"
_DEFAULTS = Limits()
_MIB = 1024 * 1024


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; return 2, with one line on stderr, when the server cannot start."""
    options = _parser().parse_args(argv)
    configure_logging()
    try:
        key = read_key(options.key_file, _KEY)
        for folder in (*options.model, *([options.draft] if options.draft else [])):
            if not folder.is_dir():
                raise ServiceError(f"{folder}: no such folder")
        if not options.open:
            warn_if_open(options.host, key, _KEY)
        options.state = writable_folder(options.state)
        # Imported late: the libraries take a second, which --help and a wrong path need not wait.
        from hearth_whisper.web.app import serve

        serve(options, key, _limits(options))
    except ServiceError as error:
        print(f"hearth-whisper: {error}", file=sys.stderr)
        return 2
    return 0


def _limits(options: argparse.Namespace) -> Limits:
    return Limits(
        body_bytes=options.upload_limit * _MIB,
        # Room for two of the largest; with less, a single one could be rejected for ever.
        scratch_bytes=max(_DEFAULTS.scratch_bytes, 2 * options.upload_limit * _MIB),
        audio_s=options.audio_limit,
        timeout_s=options.time_limit,
        live=options.live,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hearth-whisper",
        description="An OpenAI-compatible speech-to-text server for Whisper.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _model_options(parser)
    _server_options(parser)
    _limit_options(parser)
    return parser


def _model_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model", type=Path, action="append", required=True, metavar="DIR",
        help="a folder in faster-whisper's format; of several, in order of preference, the "
        "first that is fast enough on this machine is used")  # fmt: skip
    add("--draft", type=Path, metavar="DIR",
        help="smaller model for partial results (default: a copy of the model)")  # fmt: skip
    add("--no-partials", dest="partials", action="store_false",
        help="no partial results, and no second model in memory")  # fmt: skip
    add("--share", type=_share, default=0.5, metavar="N",
        help="largest share of the CPU for partial results (default %(default)g)")  # fmt: skip
    add("--device", choices=("auto", "cpu", "cuda"), default="auto",
        help="auto (default): the NVIDIA GPU if there is one")  # fmt: skip
    add("--unload", type=_positive, metavar="S",
        help="unload the model after this many idle seconds (default: never)")  # fmt: skip
    add("--state", type=Path, metavar="DIR", default=state_folder("hearth-whisper"),
        help="stores measurements for the next start, and large uploads while they are "
        "transcribed (default %(default)s)")  # fmt: skip


def _server_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="default %(default)s")
    add("--port", type=int, default=8000, help="default %(default)s")
    add("--wyoming-port", type=int, metavar="PORT",
        help="for satellites, usually 10300 (default: off); Wyoming has no keys, so every client "
        "that can connect may use it")  # fmt: skip
    add("--wyoming-host", default="127.0.0.1", metavar="HOST", help="default %(default)s")
    add("--key-file", type=Path, metavar="FILE",
        help="file with the key for clients (default: $HEARTH_WHISPER_KEY, or no key)")  # fmt: skip
    add("--open", action="store_true",
        help="run without a key on purpose, without the warning")  # fmt: skip
    add("--origin", action="append", default=[], metavar="URL",
        help="a web page's origin that may use this server, such as https://chat.lan")  # fmt: skip


def _limit_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--live", type=_count, metavar="N", default=_DEFAULTS.live,
        help="live streams at once (default %(default)s)")  # fmt: skip
    add("--upload-limit", type=_count, metavar="MIB", default=_DEFAULTS.body_bytes // _MIB,
        help="largest upload, in MiB (default %(default)s)")  # fmt: skip
    add("--audio-limit", type=_positive, metavar="S", default=_DEFAULTS.audio_s,
        help="longest audio of one file, in seconds (default %(default)g)")  # fmt: skip
    add("--time-limit", type=_positive, metavar="S", default=_DEFAULTS.timeout_s,
        help="longest duration of one request, in seconds (default %(default)g)")  # fmt: skip


def _positive(text: str) -> float:
    if not 0 < (number := float(text)) < 1e9:
        raise argparse.ArgumentTypeError("must be a number of seconds above 0")
    return number


def _count(text: str) -> int:
    if not 0 < (number := int(text)) < 1e6:
        raise argparse.ArgumentTypeError("must be a whole number above 0")
    return number


def _share(text: str) -> float:
    if not 0 < (number := float(text)) <= 1:
        raise argparse.ArgumentTypeError("must be a number above 0 and at most 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
