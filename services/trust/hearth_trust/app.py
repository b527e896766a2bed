"""The trust page's web application: the page, the certificate, a QR code and an echo."""

import asyncio
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from hearth_serving.page import page_files

from .config import Config, address_of
from .document import content_security_policy, qr_code, render_page

CERTIFICATE = "/hearth-root.crt"
ECHOES, ECHO_S = 8, 30
_TYPES = {".css": "text/css", ".mjs": "text/javascript", ".svg": "image/svg+xml"}


def make_app(config: Config) -> Starlette:
    """Return the application; it has no secrets and stores nothing."""
    files = page_files(Path(__file__).parent / "page")
    headers = {
        "Content-Security-Policy": content_security_policy(config.site),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
        # The address and the certificate may change.
        "Cache-Control": "no-store",
    }

    async def page(request: Request) -> Response:
        text = render_page(
            config,
            files,
            user_agent=request.headers.get("user-agent", ""),
            secure=request.headers.get("x-forwarded-proto") == "https",
            address=address_of(config.interface),
        )
        return Response(text, headers=headers, media_type="text/html")

    async def certificate(_: Request) -> Response:
        # Phones and Firefox recognise it by this type; Windows, macOS and Linux by the name's .crt.
        return Response(config.root_pem, headers=headers, media_type="application/x-x509-ca-cert")

    async def code(_: Request) -> Response:
        picture = qr_code(address_of(config.interface) or config.site)
        return Response(picture, headers=headers, media_type="image/svg+xml")

    async def check(_: Request) -> Response:
        # The page requests this under another name or address of the house; it reveals nothing.
        return JSONResponse({"house": "Hearth"}, headers={"Access-Control-Allow-Origin": "*"})

    async def page_file(request: Request) -> Response:
        name = request.path_params["name"]
        media_type = _TYPES.get(Path(name).suffix)
        if media_type is None or name not in files:
            return PlainTextResponse("This file does not exist.\n", status_code=404)
        return Response(files[name], headers=headers, media_type=media_type)

    async def echo(socket: WebSocket) -> None:
        await _echo(socket, f"https://{config.site}")

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(
        routes=[
            Route("/", page),
            Route(CERTIFICATE, certificate),
            Route("/qr.svg", code),
            Route("/check", check),
            Route("/page/{name}", page_file),
            Route("/health", health),
            WebSocketRoute("/echo", echo),
        ]
    )


async def _echo(socket: WebSocket, origin: str) -> None:
    """Send back the first few messages of the page itself; reject every other origin."""
    if socket.headers.get("origin") != origin:
        await socket.close()
        return
    await socket.accept()
    try:
        async with asyncio.timeout(ECHO_S):
            for _ in range(ECHOES):
                await socket.send_text(await socket.receive_text())
    except WebSocketDisconnect:
        return
    except (TimeoutError, KeyError):
        # The client was silent for too long, or sent bytes.
        pass
    await socket.close()
