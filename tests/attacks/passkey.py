"""A passkey in software: what an honest authenticator signs, and what a dishonest one would."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import struct
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

ORIGIN, RP_ID = "https://home.lan", "home.lan"
# Bits of the authenticator data: the person is present, was verified, and a key is attached.
PRESENT, VERIFIED, ATTACHED = 0x01, 0x04, 0x40


def b64(data: bytes) -> str:
    """Return base64url without padding, as WebAuthn writes it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass(slots=True)
class Passkey:
    """One credential with its private key and its counter."""

    id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    count: int = 0

    def register(
        self, challenge: bytes, *, origin: str = ORIGIN, rp_id: str = RP_ID
    ) -> dict[str, Any]:
        """Return what `navigator.credentials.create` gives, as JSON."""
        numbers = self.key.public_key().public_numbers()
        x, y = numbers.x.to_bytes(32, "big"), numbers.y.to_bytes(32, "big")
        public = cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y})
        attached = bytes(16) + struct.pack(">H", len(self.id)) + self.id + public
        data = _data(rp_id, PRESENT | VERIFIED | ATTACHED, self.count) + attached
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client = _client("webauthn.create", challenge, origin)
        response = {"clientDataJSON": b64(client), "attestationObject": b64(attestation)}
        return self._credential(response)

    def sign(
        self,
        challenge: bytes,
        *,
        origin: str = ORIGIN,
        rp_id: str = RP_ID,
        flags: int = PRESENT | VERIFIED,
        kind: str = "webauthn.get",
        count: int | None = None,
    ) -> dict[str, Any]:
        """Return what `navigator.credentials.get` gives, as JSON."""
        self.count += 1
        data = _data(rp_id, flags, self.count if count is None else count)
        client = _client(kind, challenge, origin)
        signed = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        return self._credential(
            {
                "clientDataJSON": b64(client),
                "authenticatorData": b64(data),
                "signature": b64(signed),
                "userHandle": None,
            }
        )

    def _credential(self, response: dict[str, Any]) -> dict[str, Any]:
        name = b64(self.id)
        return {
            "id": name,
            "rawId": name,
            "type": "public-key",
            "response": response,
            "clientExtensionResults": {},
            "authenticatorAttachment": "platform",
        }


def _data(rp_id: str, flags: int, count: int) -> bytes:
    return hashlib.sha256(rp_id.encode()).digest() + struct.pack(">BI", flags, count)


def _client(kind: str, challenge: bytes, origin: str) -> bytes:
    return json.dumps(
        {"type": kind, "challenge": b64(challenge), "origin": origin, "crossOrigin": False}
    ).encode()
