"""What the service answers when it refuses: a status and Azure's error body.

Texts are those of the real service where they are publicly known; what this stand-in
refuses because it cannot imitate it starts with "Not imitated".
"""

from typing import Any

NOT_IMITATED = "Not imitated by the local stand-in: "
PRECONDITION = (
    "The precondition given in one of the request headers evaluated to false. "
    "No change was made to the resource from this request."
)


class ServiceError(Exception):
    """A refusal: HTTP status, message, and optional code and details as Azure words them."""

    def __init__(
        self, status: int, message: str, *, code: str = "", details: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.details = details

    def body(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            error["details"] = [{"code": code, "message": text} for code, text in self.details]
        return {"error": error}


def bad_request(message: str) -> ServiceError:
    return ServiceError(400, message)


def not_imitated(what: str) -> ServiceError:
    return ServiceError(400, NOT_IMITATED + what)


def unknown_property(name: str, clause: str) -> ServiceError:
    return bad_request(
        f"Invalid expression: Could not find a property named '{name}' on type 'search.document'.\r\n"
        f"Parameter name: {clause}"
    )


def precondition_failed() -> ServiceError:
    return ServiceError(412, PRECONDITION)


def unknown_semantic_configuration(name: str) -> ServiceError:
    text = f"Unknown semantic configuration '{name}'."
    return ServiceError(
        400,
        f"{text}\r\nParameter name: semanticConfiguration",
        code="InvalidRequestParameter",
        details=(("UnknownSemanticConfiguration", text),),
    )


def semantic_not_available() -> ServiceError:
    text = "Semantic search is not enabled for this service."
    return ServiceError(
        400,
        f"{text}\r\nParameter name: queryType",
        code="FeatureNotSupportedInService",
        details=(("SemanticQueriesNotAvailable", text),),
    )


def vectorization_failed(status: int, reason: str) -> ServiceError:
    return ServiceError(
        502,
        "Could not complete vectorization action. "
        f"The vectorization endpoint returned status code '{status}' ({reason}).",
    )
