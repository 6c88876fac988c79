"""A foreign message made fit to be shown and kept: without secrets, on one line, not too long."""

import re
from collections.abc import Iterable

_LONGEST = 500
_HIDDEN = "[hidden]"
_SECRETS = re.compile(
    r"""
      (?P<name> ["']?\b(?:api[-_]?key|ocp-apim-subscription-key|accountkey|sharedaccesskey|access_?token
                |client_?secret|password|secret|authorization|sig|signature)\b["']?\s*[=:]\s*["']? )
      (?:(?:bearer|sharedkey|basic)\s+)? [^\s"',;&]+                 # name=value, name: value, "name": "value"
    | (?P<scheme> \b(?:bearer|sharedkey|basic)\s+ ) [^\s"',;]+        # what an Authorization header carries
    | \beyJ[\w-]{8,}(?:\.[\w-]*){1,4}                                # a token by its looks
    | (?<![\w+/-]) (?=[A-Za-z+/]*\d) (?=[\d+/]*[A-Za-z]) [A-Za-z0-9+/]{32,} ={0,2} (?![\w+/-])   # a key
    """,
    re.VERBOSE | re.IGNORECASE,
)
_UNSEEN = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ud800-\udfff]+")


def scrubbed(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` with `secrets`, and what looks like a key, token or signature, hidden; at most 500 characters.

    Runs of white space, control and direction characters become one space.
    """
    for secret in secrets:
        if secret:
            text = text.replace(secret, _HIDDEN)
    text = _SECRETS.sub(_hidden, text)
    text = _UNSEEN.sub(" ", text).strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _hidden(match: re.Match[str]) -> str:
    return (match["scheme"] or match["name"] or "") + _HIDDEN
