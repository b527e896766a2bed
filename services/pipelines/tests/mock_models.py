"""A mock of the house's models, which records requests and can fail on demand."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class MockModels:
    """A server of `/v1/chat/completions` in threads of this process."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.faults: dict[str, str] = {}  # model to status, error, cut, wait or thought
        self.resume = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> MockModels:
        """Start to listen."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server."""
        self.resume.set()
        self._server.shutdown()
        self._server.server_close()


def _handler(models: MockModels) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers["content-length"])
            request = json.loads(self.rfile.read(size))
            sent = {"key": self.headers["authorization"], "chat": self.headers["x-hearth-chat"]}
            models.calls.append({"path": self.path, **sent, **request})
            fault = models.faults.get(request["model"], "")
            if fault == "status":
                error = {"error": {"message": "there is no such model here"}}
                self._respond(404, json.dumps(error).encode())
                return
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self._stream(str(request["model"]), fault)

        def _stream(self, model: str, fault: str) -> None:
            self._send_choice({"delta": {"reasoning_content": "hm", "reasoning": "hm"}})
            if fault == "thought":
                self._send_choice({"delta": {}, "finish_reason": "length"})
                self._end()
                return
            self._send_choice({"delta": {"content": f"{model} starts"}})
            if fault == "wait":
                models.resume.wait(30)
            if fault == "error":
                self._send({"error": {"message": "the model was killed"}})
            if fault in ("error", "cut"):
                self._end()
                return
            self._send_choice({"delta": {"content": " and ends."}})
            self._send_choice({"delta": {}, "finish_reason": "stop"})
            self._end()

        def _send_choice(self, choice: Mapping[str, Any]) -> None:
            self._send({"choices": [{"index": 0, **choice}]})

        def _send(self, event: Mapping[str, Any]) -> None:
            self._chunk(f"data: {json.dumps(event)}\n\n".encode())

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

        def _end(self) -> None:
            self._chunk(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

        def _respond(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Do not log requests."""

    return Handler
