"""The server as programs meet it: HTTP, events, WebSocket, limits, formats and figures."""
