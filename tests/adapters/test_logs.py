"""Lines of a log: nothing forges one, and no secret stands in one."""

import json
import logging
from typing import Any

import pytest
from pydantic import SecretStr

from app.adapters.logs import JsonLines, PlainLines
from app.gate.telemetry import QUESTION, REQUEST, RUN, about
from app.settings import Settings, secrets_of

KEY = "d2hhdCBhIHNlY3JldCB0aGlzIGlz"
STORE = f"Endpoint=https://contoso.azconfig.io;Id=x;Secret={KEY}"


def record(
    message: str, *arguments: object, info: "logging._SysExcInfoType | None" = None
) -> logging.LogRecord:
    return logging.LogRecord("app.gate", logging.WARNING, __file__, 1, message, arguments, info)


def failed(why: str, message: str, *arguments: object) -> logging.LogRecord:
    with pytest.raises(ValueError) as caught:
        raise ValueError(why)
    return record(message, *arguments, info=(caught.type, caught.value, caught.tb))


def as_json(one: logging.LogRecord, *secrets: str) -> dict[str, Any]:
    line = JsonLines(secrets).format(one)
    assert line.isascii()
    assert line.isprintable()  # and therefore one line
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_line_says_when_how_grave_where_and_what() -> None:
    one = record("run %s is done", "run-1")
    one.created = 1_796_040_000.25  # 2026-11-30 12:00:00.25 UTC
    assert as_json(one) == {
        "time": "2026-11-30T12:00:00.250+00:00",
        "level": "warning",
        "logger": "app.gate",
        "message": "run run-1 is done",
    }


def test_a_line_says_of_which_run_question_and_request_it_is() -> None:
    with about(RUN, "run-1"), about(QUESTION, "q1"), about(REQUEST, "r-1"):
        inside = as_json(record("asked"))
    assert [inside["run"], inside["question"], inside["request"]] == ["run-1", "q1", "r-1"]
    assert not {"run", "question", "request"} & as_json(record("asked")).keys()


@pytest.mark.parametrize("text", ['x\n{"level": "error"}', "x\r\nERROR app y", "\u2028\x85\x1b[2J", "\ud800"])
def test_text_from_outside_forges_no_line(text: str) -> None:
    assert as_json(record("%s", text))["message"] == text
    plain = PlainLines(()).format(record("%s", text))
    assert len(plain.splitlines()) == 1
    assert plain.startswith("WARNING app.gate ")
    assert plain.isprintable()


def test_an_exception_is_one_field_or_indented_lines() -> None:
    one = failed("bad\nERROR app.gate forged", "it failed")
    told = as_json(one)
    assert told["message"] == "it failed"
    assert told["exception"].startswith("Traceback")
    assert told["exception"].endswith("ValueError: bad\nERROR app.gate forged")
    first, *others = PlainLines(()).format(one).splitlines()
    assert first == "WARNING app.gate it failed"
    assert others
    assert all(line.startswith("  ") for line in others)


@pytest.mark.parametrize("lines", [JsonLines, PlainLines])
def test_no_line_holds_a_secret(lines: type[PlainLines]) -> None:
    secrets = secrets_of(
        Settings(
            appconfig_endpoint=None,
            appconfig_connection_string=SecretStr(STORE),
            search_api_key=SecretStr("search-key-1"),
        )
    )
    one = failed(f"search-key-1 was refused by {STORE}", f"{KEY} and %s", {"api-key": "search-key-1"})
    told = lines(secrets).format(one)
    assert KEY not in told
    assert "search-key-1" not in told
    assert told.count("[hidden]") == 4
