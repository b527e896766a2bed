"""The house's models as a pipeline meets them, scripted: what each says, and what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Models:
    """A server of `/v1/chat/completions` in threads of this process."""

    def __init__(self) -> None:
        """Let every model say its own name; nobody has asked yet."""
        self.calls: list[dict[str, Any]] = []
        self.faults: dict[str, str] = {}  # model to status, error, cut or wait
        self.go_on = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Models:
        """Listen."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()


def _handler(models: Models) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers["content-length"])
            asked = json.loads(self.rfile.read(size))
            models.calls.append({"path": self.path, "key": self.headers["authorization"], **asked})
            fault = models.faults.get(asked["model"], "")
            if fault == "status":
                words = {"error": {"message": "there is no such model here"}}
                self._whole(404, json.dumps(words).encode())
                return
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self._stream(str(asked["model"]), fault)

        def _stream(self, model: str, fault: str) -> None:
            self._say({"delta": {"content": f"{model} begins"}})
            if fault == "wait":
                models.go_on.wait(30)
            if fault == "error":
                self._send({"error": {"message": "the model was killed"}})
            if fault in ("error", "cut"):
                self._end()
                return
            self._say({"delta": {"content": " and ends."}})
            self._say({"delta": {}, "finish_reason": "stop"})
            self._end()

        def _say(self, choice: Mapping[str, Any]) -> None:
            self._send({"choices": [{"index": 0, **choice}]})

        def _send(self, event: Mapping[str, Any]) -> None:
            self._chunk(f"data: {json.dumps(event)}\n\n".encode())

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

        def _end(self) -> None:
            self._chunk(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

        def _whole(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
