"""What the search service's refusals mean: HTTP status and text become a failed attempt or a broken run.

| answer | becomes |
| --- | --- |
| 401, 403, no token to be had | BrokenError unauthorized |
| 402 | BrokenError quota-exceeded |
| 404 | BrokenError index-missing |
| 400 that names an unknown semantic configuration, or no ranker on this service | BrokenError semantic-unavailable |
| 400 that names a field that is not there, not retrievable, not searchable … | BrokenError field-missing |
| 400 that names a field without a vectorizer | BrokenError no-vectorizer |
| 4xx, 5xx of the vectorizer: it was refused (401, 403), or is not there (404) | BrokenError vectorizer-failed |
| 4xx, 5xx of the vectorizer: anything else | vectorizer-failed |
| 429, 503 | throttled |
| 408 | timed-out |
| other 5xx | server-error |
| 3xx | protocol |
| other 4xx | rejected |

The texts are the service's own, as found in public reports; where it words one anew, the question is
rejected instead of the run broken, which is an ERROR as well.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from app.adapters.retries import FailedAttemptError, retry_after
from app.adapters.scrubbing import scrubbed
from app.domain.errors import BrokenError, FailureCode
from app.domain.reasons import Code

_SEMANTIC = re.compile(
    r"UnknownSemanticConfiguration|SemanticQueriesNotAvailable|unknown semantic configuration"
    r"|semantic (?:search|ranker|ranking) is not (?:enabled|available|supported)"
    r"|FeatureNotSupportedInService.*semantic|no default semantic configuration",
    re.IGNORECASE | re.DOTALL,
)
_FIELD = re.compile(
    r"UnknownField|could not find a property named|unknown field|is not a retrievable field"
    r"|is not (?:retrievable|searchable|filterable)|is not a (?:vector|searchable|filterable) field",
    re.IGNORECASE,
)
_NO_VECTORIZER = re.compile(r"does not have a vectorizer", re.IGNORECASE)
_VECTORIZATION = re.compile(r"vectorization (?:action|endpoint)", re.IGNORECASE)
_VECTORIZER_REFUSED = re.compile(
    r"\b(?:401|403|404)\b|unauthorized|forbidden|failed to authenticate", re.IGNORECASE
)
THROTTLED = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer that is no answer. `text` is scrubbed; `headers` are the answer's."""

    status: int
    text: str
    headers: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.status}: {self.text}" if self.text else f"{self.status}, without a text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who asks, for the message when it is refused. `client_id` None: not known."""

    by_key: bool
    client_id: str | None = None

    def next_step(self) -> str:
        """What to check, in a sentence."""
        if self.by_key:
            return (
                "Check GATE_SEARCH_API_KEY; a query key reads documents only, and a service that allows no keys "
                "needs an identity with the role Search Index Data Reader instead."
            )
        who = f"the identity with client id {self.client_id}" if self.client_id else "this identity"
        return (
            f"Give {who} the role Search Index Data Reader (it takes effect after 5 to 10 minutes), check that "
            "AZURE_CLIENT_ID names the right one, and that the service accepts role-based access: API keys only "
            "is its default (Settings > Keys)."
        )


def service_text(body: str, secrets: tuple[str, ...] = ()) -> str:
    """The error's code, message and detail codes, or the body as it is, made fit to be shown."""
    try:
        error = json.loads(body)["error"]
        details = error.get("details") or []
        parts = [error.get("code"), *(each.get("code") for each in details), error.get("message")]
        text = ", ".join(dict.fromkeys(str(part) for part in parts if part))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        text = body
    return scrubbed(text, secrets)


def refused(refusal: Refusal, index: str, identity: Identity) -> FailedAttemptError | BrokenError:
    """What follows from the refusal, by the table above."""
    if _VECTORIZATION.search(refusal.text):
        return _vectorizer(refusal, index)
    match refusal.status:
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return unauthorized(str(refusal), index, identity)
        case HTTPStatus.PAYMENT_REQUIRED:
            return BrokenError(
                Code.QUOTA_EXCEEDED,
                f"Index {index!r}: the allowance of semantic queries is used up ({refusal}). Enable its billing, "
                "or wait for the next month.",
                index=index,
            )
        case HTTPStatus.NOT_FOUND:
            return missing(index, str(refusal))
        case HTTPStatus.BAD_REQUEST:
            return _bad_request(refusal, index)
        case _:
            return FailedAttemptError(
                _code(refusal.status),
                f"index {index!r}: the service answered {refusal}",
                retry_after=retry_after(refusal.headers),
                throttled=refusal.status in THROTTLED,
            )


def unauthorized(text: str, index: str, identity: Identity) -> BrokenError:
    return BrokenError(
        Code.UNAUTHORIZED,
        f"Index {index!r}: the search service does not let this program in ({text}). {identity.next_step()}",
        index=index,
    )


def missing(index: str, text: str) -> BrokenError:
    return BrokenError(
        Code.INDEX_MISSING,
        f"There is no index or alias {index!r} on this service ({text}). Check its name, and "
        "GATE_SEARCH_ENDPOINT.",
        index=index,
    )


def _code(status: int) -> FailureCode:
    if status in THROTTLED:
        return FailureCode.THROTTLED
    if status == HTTPStatus.REQUEST_TIMEOUT:
        return FailureCode.TIMED_OUT
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return FailureCode.SERVER_ERROR
    return FailureCode.REJECTED if status >= HTTPStatus.BAD_REQUEST else FailureCode.PROTOCOL


def _bad_request(refusal: Refusal, index: str) -> FailedAttemptError | BrokenError:
    text = refusal.text
    if _NO_VECTORIZER.search(text):
        step = "Give the field's profile a vectorizer, or the golden set a [query.embedding]."
        return BrokenError(Code.NO_VECTORIZER, f"Index {index!r}: {text} {step}", index=index)
    if _SEMANTIC.search(text):
        step = "Enable the semantic ranker, name a configuration that the index has, or set semantic = false."
        return BrokenError(Code.SEMANTIC_UNAVAILABLE, f"Index {index!r}: {text} {step}", index=index)
    if _FIELD.search(text):
        step = "Correct the field names in the golden set's [query], or the index."
        return BrokenError(Code.FIELD_MISSING, f"Index {index!r}: {text} {step}", index=index)
    return FailedAttemptError(FailureCode.REJECTED, f"index {index!r}: the service answered {refusal}")


def _vectorizer(refusal: Refusal, index: str) -> FailedAttemptError | BrokenError:
    if _VECTORIZER_REFUSED.search(refusal.text):
        return BrokenError(
            Code.VECTORIZER_FAILED,
            f"Index {index!r}: its vectorizer cannot reach its model ({refusal}). Check the vectorizer's "
            "endpoint and deployment, and that the search service's identity, or the key, may use it.",
            index=index,
        )
    return FailedAttemptError(
        FailureCode.VECTORIZER,
        f"index {index!r}: the question could not be turned into a vector ({refusal})",
        retry_after=retry_after(refusal.headers),
        throttled=refusal.status in THROTTLED,
    )
