"""A passkey in software, which signs as a phone does, and as no phone does where a test says so."""

import base64
import hashlib
import json
import os
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

_PRESENT, _VERIFIED, _ATTESTED = 0x01, 0x04, 0x40


def text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def raw(encoded: str) -> bytes:
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))


class Authenticator:
    """One passkey for one relying party."""

    def __init__(self, origin: str = "https://home.lan", relying: str = "home.lan") -> None:
        self.origin, self.relying = origin, relying
        self.verifies, self.framed, self.count = True, False, 0
        self.id = os.urandom(16)
        self._key = ec.generate_private_key(ec.SECP256R1())

    def make(self, options: dict[str, Any]) -> dict[str, Any]:
        """Answer `navigator.credentials.create`."""
        point = self._key.public_key().public_numbers()
        public = {
            1: 2,
            3: -7,
            -1: 1,
            -2: point.x.to_bytes(32, "big"),
            -3: point.y.to_bytes(32, "big"),
        }
        attested = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + cbor2.dumps(public)
        data = self._data(_ATTESTED) + attested
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client("webauthn.create", options["challenge"])
        return self._answer(clientDataJSON=client, attestationObject=attestation)

    def sign(self, challenge: str) -> dict[str, Any]:
        """Answer `navigator.credentials.get`; the challenge is base64url."""
        self.count += 1
        data, client = self._data(0), self._client("webauthn.get", challenge)
        signed = data + hashlib.sha256(client).digest()
        signature = self._key.sign(signed, ec.ECDSA(hashes.SHA256()))
        return self._answer(clientDataJSON=client, authenticatorData=data, signature=signature)

    def _data(self, more: int) -> bytes:
        flags = _PRESENT | (_VERIFIED if self.verifies else 0) | more
        relying = hashlib.sha256(self.relying.encode()).digest()
        return relying + bytes([flags]) + self.count.to_bytes(4, "big")

    def _client(self, kind: str, challenge: str) -> bytes:
        said = {"type": kind, "challenge": challenge, "origin": self.origin}
        return json.dumps({**said, "crossOrigin": self.framed}).encode()

    def _answer(self, **parts: bytes) -> dict[str, Any]:
        response = {name: text(value) for name, value in parts.items()}
        return {
            "id": text(self.id),
            "rawId": text(self.id),
            "type": "public-key",
            "response": response,
        }
