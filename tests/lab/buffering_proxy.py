"""A proxy that a house must detect: it holds a response back until all of it has arrived.

`python3 buffering_proxy.py ADDRESS PORT http://SERVER:PORT`, with the standard library alone: it
runs in a lab machine.
"""

import http.client
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

LIMIT_S = 120


class Buffering(BaseHTTPRequestHandler):
    """Forward a request, and return its response when that is complete."""

    protocol_version = "HTTP/1.1"
    behind: ClassVar[str] = ""

    def answer(self) -> None:
        """Send the request upstream and return the response in one piece."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = http.client.HTTPConnection(self.behind, timeout=LIMIT_S)
        kind = {"Content-Type": self.headers.get("Content-Type", "application/json")}
        server.request(self.command, self.path, body or None, kind)
        response = server.getresponse()
        whole = response.read()
        server.close()
        self.send_response(response.status)
        self.send_header("Content-Type", response.headers.get("Content-Type", "text/plain"))
        self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        self.wfile.write(whole)

    do_GET = do_POST = answer


if __name__ == "__main__":
    address, port, server = sys.argv[1:]
    Buffering.behind = urllib.parse.urlsplit(server).netloc
    ThreadingHTTPServer((address, int(port)), Buffering).serve_forever()
