"""Lines of a log: one JSON object each for machines, plain text for people. No text from outside forges a line."""

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime

from app.gate.telemetry import QUESTION, REQUEST, RUN
from app.report.escaping import visible

_HIDDEN = "[hidden]"
_WHOSE = {"run": RUN, "question": QUESTION, "request": REQUEST}


def log_to_stderr(level: str, secrets: Iterable[str], *, as_json: bool = False) -> None:
    """What this program logs from that level on, and the least of what its libraries do; `as_json`: for machines."""
    lines = JsonLines if as_json else PlainLines
    handler = logging.StreamHandler()
    handler.setFormatter(lines(secrets))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.captureWarnings(capture=True)
    for name in ("azure", "httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # the clients log a traceback for every error answer without a body, which they then handle well
    for name in (
        "azure.search.documents._utils.model_base",
        "azure.appconfiguration._generated._utils.model_base",
    ):
        logging.getLogger(name).setLevel(logging.ERROR)


class PlainLines(logging.Formatter):
    """Level, logger and message; a traceback below it, indented. `secrets` are hidden wherever they stand."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__("%(levelname)s %(name)s %(message)s")
        self._secrets = sorted(secrets, key=len, reverse=True)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 — the library's name
        """The line without a traceback."""
        record.message = visible(self.hidden(record.message))
        return super().formatMessage(record)

    def formatException(self, ei: "logging._SysExcInfoType") -> str:  # noqa: N802 — the library's name
        """The traceback."""
        told = visible(self.hidden(super().formatException(ei)), lines=True)
        return "\n".join(f"  {line}" for line in told.splitlines())

    def hidden(self, text: str) -> str:
        """The text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return text


class JsonLines(PlainLines):
    """One JSON object a line, in ASCII: time, level, logger, message, and where known run, question, request
    and exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The object."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.hidden(record.getMessage()),
            **{name: value for name, whose in _WHOSE.items() if (value := whose.get()) is not None},
        }
        if record.exc_info:
            line["exception"] = self.hidden(logging.Formatter.formatException(self, record.exc_info))
        return json.dumps(line)
