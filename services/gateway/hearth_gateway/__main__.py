"""Run LiteLLM's proxy behind our middleware."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hearth_gateway import answered, custom_auth
from hearth_gateway.app import Gateway
from hearth_gateway.settings import GatewayError, export_secrets, load_config

KEEP_ALIVE_S = 130


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM; return 2 when the configuration cannot be used."""
    parser = argparse.ArgumentParser(prog="hearth_gateway", description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("/etc/litellm/config.yaml"))
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=4000)
    chosen = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
    logging.getLogger("hearth_gateway").setLevel(logging.INFO)
    try:
        app = build(chosen.config, _credentials())
    except GatewayError as error:
        print(f"hearth_gateway: {error}", file=sys.stderr)
        return 2
    import uvicorn

    # h11 and uvloop are in the lock. Our own access log names consumer and member.
    uvicorn.run(
        app,
        host=chosen.host,
        port=chosen.port,
        access_log=False,
        log_level="warning",
        ws="none",  # without it an upgrade is a path that does not exist
        server_header=False,
        timeout_graceful_shutdown=5,
        # Longer than the reverse proxy keeps an idle connection, so that it closes first.
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    return 0


def build(config: Path, credentials: Path) -> Gateway:
    """Return the whole gateway as one ASGI app; LiteLLM is imported here, not earlier."""
    if not config.is_file():
        raise GatewayError(f"{config}: no such file")
    # Recordings go to the disk; /tmp may be memory.
    tempfile.tempdir = "/var/tmp"  # noqa: S108 - the files never have a name
    loaded = load_config(config.parent, credentials)
    export_secrets(credentials)
    custom_auth.install(loaded)
    answered.install()
    app = _litellm(config)
    from litellm.utils import token_counter

    # With the tokens of GPT-4: those of the models of this house differ by some percent.
    return Gateway(app, loaded, count=lambda text: int(token_counter(text=text)))


def _credentials() -> Path:
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        raise GatewayError("CREDENTIALS_DIRECTORY: not set; start this as a systemd service")
    return Path(folder)


def _litellm(config: Path) -> Any:
    # Prices and other lists come with the package; LiteLLM would download newer ones.
    lists = "MODEL_COST_MAP ANTHROPIC_BETA_HEADERS BLOG_POSTS POLICY_TEMPLATES AUTOROUTER_PRESETS"
    os.environ.update({f"LITELLM_LOCAL_{name}": "True" for name in lists.split()})
    os.environ.update(
        CONFIG_FILE_PATH=str(config),
        # A server may close a connection that was idle for longer just as the next request is
        # sent, which then fails although the server is well: LiteLLM does not send it again.
        AIOHTTP_KEEPALIVE_TIMEOUT="2",
        # LiteLLM honours a model's own `max_retries: 0` for chats, but not for embeddings.
        DEFAULT_MAX_RETRIES="0",
        DISABLE_ADMIN_UI="True",
        LITELLM_MODE="PRODUCTION",  # in other modes it reads any .env file that it finds
        NO_DOCS="True",
        NO_REDOC="True",
    )
    from litellm.proxy.proxy_server import app

    # LiteLLM logs each failed call with stack traces and the member's message, which may quote
    # the request. Our access log names the failure; LiteLLM's own failures raise.
    for name in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return app


if __name__ == "__main__":
    sys.exit(main())
