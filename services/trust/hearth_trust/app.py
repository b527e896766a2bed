"""The page's web application: a document, the certificate, a picture and an echo."""

import asyncio
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from hearth_serving.page import page_files

from .config import Config, address_of
from .document import code, document, policy

CERTIFICATE = "/hearth-root.crt"
ECHOES, ECHO_S = 8, 30
_TYPES = {".css": "text/css", ".mjs": "text/javascript", ".svg": "image/svg+xml"}


def make_app(config: Config) -> Starlette:
    """Return the application; it knows no secret and keeps nothing."""
    files = page_files(Path(__file__).parent / "page")
    headers = {
        "Content-Security-Policy": policy(config.site),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
        # The address may be another one tomorrow, and so may the certificate.
        "Cache-Control": "no-store",
    }

    async def page(request: Request) -> Response:
        text = document(
            config,
            files,
            user_agent=request.headers.get("user-agent", ""),
            secure=request.headers.get("x-forwarded-proto") == "https",
            address=address_of(config.interface),
        )
        return Response(text, headers=headers, media_type="text/html")

    async def certificate(_: Request) -> Response:
        # By this type a phone's settings and Firefox know what it is; a name that ends in .crt is
        # what Windows, a Mac and Linux go by.
        return Response(config.root_pem, headers=headers, media_type="application/x-x509-ca-cert")

    async def picture(_: Request) -> Response:
        made = code(address_of(config.interface) or config.site)
        return Response(made, headers=headers, media_type="image/svg+xml")

    async def check(_: Request) -> Response:
        # Asked by the page under another name or address of the same house; it tells nothing.
        return JSONResponse({"house": "Hearth"}, headers={"Access-Control-Allow-Origin": "*"})

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        kind = _TYPES.get(Path(name).suffix)
        if kind is None or name not in files:
            return PlainTextResponse("There is no such file.\n", status_code=404)
        return Response(files[name], headers=headers, media_type=kind)

    async def echo(socket: WebSocket) -> None:
        await _echo(socket, f"https://{config.site}")

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(
        routes=[
            Route("/", page),
            Route(CERTIFICATE, certificate),
            Route("/qr.svg", picture),
            Route("/check", check),
            Route("/page/{name}", file),
            Route("/health", health),
            WebSocketRoute("/echo", echo),
        ]
    )


async def _echo(socket: WebSocket, origin: str) -> None:
    """Send back the first few texts of the page itself; nobody else is answered."""
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
        # Silent for long, or it sent bytes: this is no place to keep a connection.
        pass
    await socket.close()
