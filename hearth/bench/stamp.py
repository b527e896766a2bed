"""Runs inside an instance with Python's library alone: call a URL, stamp each line's arrival.

Reads {"url", "body" (null for GET), "call_s"} from standard input; writes {"status", "total_s",
"lines": [[seconds since the request was sent, line], ...]} or {"error"} to standard output.
"""

import http.client
import json
import sys
import time
import urllib.parse


def main() -> None:
    """Make one call and print what came, and when."""
    asked = json.load(sys.stdin)
    where = urllib.parse.urlsplit(asked["url"])
    body = None if asked["body"] is None else json.dumps(asked["body"])
    connection = http.client.HTTPConnection(where.netloc, timeout=asked["call_s"])
    connection.connect()
    # The gateway is called over a kept-alive connection, so connecting is not counted here either.
    start = time.perf_counter()
    method = "GET" if body is None else "POST"
    connection.request(method, where.path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    lines = []
    while line := response.readline():
        at_s = time.perf_counter() - start
        lines.append([at_s, line.decode("utf-8", "replace").rstrip("\n")])
        if at_s > asked["call_s"]:
            raise TimeoutError(f"no whole answer within {asked['call_s']:g} s")
    total_s = time.perf_counter() - start
    json.dump({"status": response.status, "total_s": total_s, "lines": lines}, sys.stdout)


if __name__ == "__main__":
    try:
        main()
    except (OSError, http.client.HTTPException) as error:
        json.dump({"error": f"{type(error).__name__}: {error}"}, sys.stdout)
