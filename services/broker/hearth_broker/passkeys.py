"""What a passkey signs: an enrolment's challenge, or the digest of a proposal."""

import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import webauthn
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url, options_to_json
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from hearth.approvals import ApprovalError
from hearth.approvals.people import Code, Passkey

_TIMEOUT_MS = 120_000


class Passkeys:
    """Enrolment and approval for one site, which is origin and relying party."""

    def __init__(self, home: str) -> None:
        self._home, self._origin = home, f"https://{home}"

    def enrolment(self, code: Code, known: Sequence[Passkey]) -> dict[str, Any]:
        """Return what a browser needs to make a passkey."""
        options = webauthn.generate_registration_options(
            rp_id=self._home,
            rp_name="Hearth",
            user_name=code.name,
            # The same person on the same device has one passkey.
            user_id=hashlib.sha256(code.name.encode()).digest(),
            challenge=bytes.fromhex(code.challenge),
            timeout=_TIMEOUT_MS,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.PREFERRED,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
            exclude_credentials=_named(known),
        )
        return dict(json.loads(options_to_json(options)))

    def enrolled(self, code: Code, credential: Mapping[str, Any]) -> Passkey:
        """Return the passkey that answers an enrolment, or raise ApprovalError."""
        self._check_client(credential)
        try:
            found = webauthn.verify_registration_response(
                credential=dict(credential),
                expected_challenge=bytes.fromhex(code.challenge),
                expected_rp_id=self._home,
                expected_origin=self._origin,
                require_user_verification=True,
            )
        # The library has many types for it, and those of the parsers below it.
        except Exception as error:
            raise _refused(error) from None
        return Passkey(
            code.name,
            bytes_to_base64url(found.credential_id),
            bytes_to_base64url(found.credential_public_key),
            found.sign_count,
            int(time.time()),
        )

    def approval(self, digest: str, known: Sequence[Passkey]) -> dict[str, Any]:
        """Return what a browser needs to sign the digest of a proposal."""
        options = webauthn.generate_authentication_options(
            rp_id=self._home,
            challenge=bytes.fromhex(digest),
            timeout=_TIMEOUT_MS,
            allow_credentials=_named(known),
            user_verification=UserVerificationRequirement.REQUIRED,
        )
        return dict(json.loads(options_to_json(options)))

    def approved(self, passkey: Passkey, digest: str, credential: Mapping[str, Any]) -> int:
        """Return the new counter of a passkey that has signed this digest.

        Raises:
            ApprovalError: it has signed something else, somewhere else, or without its person.
        """
        self._check_client(credential)
        try:
            found = webauthn.verify_authentication_response(
                credential=dict(credential),
                expected_challenge=bytes.fromhex(digest),
                expected_rp_id=self._home,
                expected_origin=self._origin,
                credential_public_key=base64url_to_bytes(passkey.public_key),
                credential_current_sign_count=passkey.count,
                require_user_verification=True,
            )
        except Exception as error:
            raise _refused(error) from None
        return found.new_sign_count

    def _check_client(self, credential: Mapping[str, Any]) -> None:
        """Refuse what the library does not look at: a page in a frame of another site."""
        try:
            client = json.loads(base64url_to_bytes(credential["response"]["clientDataJSON"]))
            framed = bool(client.get("crossOrigin") or client.get("topOrigin"))
        except Exception as error:
            raise _refused(error) from None
        if framed:
            raise ApprovalError("a passkey is used on the house's own page only")


def credential_id(credential: Mapping[str, Any]) -> str:
    """Return which passkey answers, or raise ApprovalError."""
    found = credential.get("id")
    if not isinstance(found, str) or not 0 < len(found) <= 2000:
        raise ApprovalError("the passkey's answer has no ID")
    return found


def _named(known: Sequence[Passkey]) -> list[PublicKeyCredentialDescriptor]:
    return [PublicKeyCredentialDescriptor(id=base64url_to_bytes(one.id)) for one in known]


def _refused(error: Exception) -> ApprovalError:
    # Its own words may quote what the client sent.
    print(f"a passkey's answer is refused: {type(error).__name__}", file=sys.stderr, flush=True)
    return ApprovalError("the passkey's answer is not valid for this page and this change")
