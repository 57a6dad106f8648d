"""Authentication of the clients of a gateway or topology server: a fixed bearer token, or a JWT."""

import hmac
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from coterie.errors import CannotStart
from coterie.team.topology.system.fields import AuthFields, JwtFields

Check = Callable[[str], Mapping[str, Any] | None]
"""Called with an `Authorization` header; returns the claims of the client, or None if it is not permitted."""


def check_of(auth: AuthFields, folder: Path) -> Check:
    """The check that *auth* describes; the paths of keys are relative to *folder*.

    Raises:
        CannotStart: If a variable is not set, or a key cannot be used.
    """
    if auth.fault:
        raise CannotStart(f"auth {auth.fault}")
    return bearer_token(auth.token_env) if auth.jwt is None else _jwt(auth.jwt, folder)


def bearer_token(variable: str) -> Check:
    """A check for the token in an environment variable.

    Raises:
        CannotStart: It is not set.
    """
    token = _environment(variable).encode()

    def check(header: str) -> Mapping[str, Any] | None:
        given = _bearer(header)
        return {} if given and hmac.compare_digest(given.encode("latin-1", "replace"), token) else None

    return check


def _jwt(fields: JwtFields, folder: Path) -> Check:
    """A check for expiring tokens that are signed with one algorithm and key."""
    try:
        import jwt
    except ImportError as missing:
        raise CannotStart(f"JWTs need pyjwt ({missing}): pip install 'coterie[http]'") from None
    try:
        key = jwt.get_algorithm_by_name(fields.algorithm).prepare_key(_key(fields, folder))
    except (OSError, ValueError, jwt.InvalidKeyError) as error:
        raise CannotStart(f"the key for {fields.algorithm} cannot be used: {error}") from None
    options: Any = {"require": ["exp"], "verify_aud": bool(fields.audience)}

    def check(header: str) -> Mapping[str, Any] | None:
        try:
            claims: Mapping[str, Any] = jwt.decode(
                _bearer(header),
                key,
                algorithms=[fields.algorithm],
                audience=fields.audience or None,
                issuer=fields.issuer or None,
                leeway=fields.leeway,
                options=options,
            )
        except (jwt.PyJWTError, ValueError, TypeError):  # whatever a client sends
            return None
        return claims

    return check


def _key(fields: JwtFields, folder: Path) -> str | bytes:
    if not fields.algorithm.startswith("HS"):
        if fields.public_key:
            return (folder / fields.public_key).read_bytes()
        return _environment(fields.public_key_env)
    secret = _environment(fields.secret_env).encode()
    least = int(fields.algorithm[2:]) // 8
    if len(secret) < least:
        raise ValueError(f"{fields.secret_env} has {len(secret)} bytes, and {least} are the least")
    return secret


def _bearer(header: str) -> str:
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _environment(variable: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        raise CannotStart(f"the environment variable {variable} is not set")
    return value
