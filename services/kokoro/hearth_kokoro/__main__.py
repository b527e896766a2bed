"""Run the speech server: `hearth-kokoro --model FILE --voices FILE`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hearth_kokoro.web.limits import Limits
from hearth_serving.command import (
    configure_logging,
    read_key,
    state_folder,
    warn_if_open,
    writable_folder,
)
from hearth_serving.errors import ServiceError

_EXAMPLES = """\
examples:
  hearth-kokoro --model kokoro-v1.0.onnx --voices voices-v1.0.bin
  hearth-kokoro --model kokoro-v1.0.onnx --model kokoro-v1.0.int8.onnx \\
      --voices voices-v1.0.bin
  HEARTH_KOKORO_KEY=... hearth-kokoro --model FILE --voices FILE --host 0.0.0.0

then:
  curl localhost:8880/v1/audio/speech -d '{"input": "Hello there."}' -o hello.mp3
"""
_KEY = "HEARTH_KOKORO_KEY"
_DEFAULT = Limits()


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; return 2 and print one line on stderr if that is not possible."""
    options = _parser().parse_args(argv)
    configure_logging()
    try:
        key = read_key(options.key_file, _KEY)
        for file in (*options.model, options.voices):
            if not file.is_file():
                raise ServiceError(f"{file}: no such file")
        if not options.open:
            warn_if_open(options.host, key, _KEY)
        options.state = writable_folder(options.state)
        # Imported late: --help and a wrong path do not need half a second of imports.
        from hearth_kokoro.web.app import serve

        serve(
            options, key, Limits(text_characters=options.text_limit, timeout_s=options.time_limit)
        )
    except ServiceError as error:
        print(f"hearth-kokoro: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hearth-kokoro",
        description="An OpenAI-compatible text-to-speech server for Kokoro.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", type=Path, action="append", required=True, metavar="FILE",
        help="a model file; of several, the fastest on this machine is used")  # fmt: skip
    add(
        "--voices",
        type=Path,
        required=True,
        metavar="FILE",
        help="the voices, such as voices-v1.0.bin",
    )
    add("--engine", choices=("auto", "onnx", "torch"), default="auto",
        help="auto (default): torch for .pth files, otherwise onnx")  # fmt: skip
    add("--host", default="127.0.0.1", help="default %(default)s")
    add("--port", type=int, default=8880, help="default %(default)s")
    add("--state", type=Path, metavar="DIR", default=state_folder("hearth-kokoro"),
        help="stores measurements for the next start (default %(default)s)")  # fmt: skip
    add("--key-file", type=Path, metavar="FILE",
        help="file with the key for clients (default: $HEARTH_KOKORO_KEY, or no key)")  # fmt: skip
    add("--open", action="store_true",
        help="run without a key on purpose, without the warning")  # fmt: skip
    add("--origin", action="append", default=[], metavar="URL",
        help="a web page's origin that may use this server, such as https://chat.lan")  # fmt: skip
    add("--text-limit", type=int, metavar="N", default=_DEFAULT.text_characters,
        help="longest text, in characters (default %(default)s)")  # fmt: skip
    add("--time-limit", type=float, metavar="S", default=_DEFAULT.timeout_s,
        help="longest request, in seconds (default %(default)g)")  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
