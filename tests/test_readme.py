"""What the README says of settings, commands and formats is so."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import click
import pytest

from app.__main__ import gate
from app.domain.condition import Need
from app.domain.golden import GoldenTexts
from app.domain.reading import read_golden_set
from app.domain.reasons import Code, Reason, Verdict, verdict
from app.settings import variables
from app.web.api import create_api
from app.web.bodies import BuildBody
from app.web.checks import SECRET

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The README's code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def commands(group: click.Group, prefix: str = "gate") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


@pytest.mark.parametrize("variable", variables())
def test_every_setting_is_in_the_table(variable: str) -> None:
    rows = [line for line in README.splitlines() if line.startswith("| `")]
    assert any(f"`{variable}`" in row.split(" | ")[0] for row in rows)


def test_every_setting_that_is_named_is_read() -> None:
    named = set(re.findall(r"`(GATE_[A-Z_]+)", README))
    assert named <= set(variables())


def test_every_command_and_option_is_named() -> None:
    for name, command in commands(gate):
        assert f"`{name}" in README, name
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.opts[0] in README, f"{name} {parameter.opts[0]}"


@pytest.mark.parametrize("code", list(Code))
def test_every_reason_is_in_the_order_of_reasons(code: Code) -> None:
    assert f"`{code}`" in README


@pytest.mark.parametrize("need", list(Need))
def test_every_condition_of_a_promotion_is_in_the_table(need: Need) -> None:
    rows = [line for line in README.splitlines() if line.startswith("| `")]
    assert any(f"`{need}`" in row.split(" | ")[0] for row in rows)


def runbook() -> list[str]:
    """The first columns of the tables that say what to do."""
    chapter = README.partition("\n## Operate\n")[2].partition("\n## ")[0]
    return [line.split(" | ")[0] for line in chapter.splitlines() if line.startswith("| ")]


@pytest.mark.parametrize("need", list(Need))
def test_the_runbook_has_a_row_for_every_condition(need: Need) -> None:
    assert len([row for row in runbook() if f"`{need}`" in row]) == 1


@pytest.mark.parametrize("code", [code for code in Code if verdict((Reason(code=code),)) is Verdict.ERROR])
def test_the_runbook_has_a_row_for_every_error(code: Code) -> None:
    assert len([row for row in runbook() if f"`{code}`" in row]) == 1


def test_the_example_of_a_golden_set_is_one() -> None:
    (jsonl,) = [block for block in blocks("json") if '"answers"' in block]
    (toml,) = blocks("toml")
    golden = read_golden_set(GoldenTexts(name="example", jsonl=jsonl, toml=toml))
    assert len(golden.questions) == 4
    assert golden.policy.protected_slices == ("exception",)


def test_what_is_put_into_a_check_is_what_the_service_takes() -> None:
    headers, sent = [json.loads(block) for block in blocks("json") if "$(" in block]
    (operation,) = create_api(nothing, version="1").openapi()["paths"]["/v1/checks/azure-devops"].values()
    taken = {each["name"] for each in operation["parameters"] if each["in"] == "header"}
    assert len(taken) == 7
    assert {*taken, SECRET} <= set(headers)
    assert BuildBody.model_validate({**sent, "build_id": "417"}).build_id == "417"


def nothing() -> NoReturn:
    raise AssertionError("the document needs no open gate")


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z]+)$", README, re.MULTILINE)) == {"demo", "test"} <= targets


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:app|infra|golden|tests)/[\w./-]+)`", README))))
def test_every_path_that_is_named_is_there(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("path", "name"), sorted(set(re.findall(r"`(tests/[\w./-]+\.py)::(\w+)`", README))))
def test_every_test_of_the_fault_table_is_there(path: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


def test_every_row_of_the_fault_table_names_its_test() -> None:
    table = README.split("| fault | what happens | test |")[1].split("\n\n")[0].splitlines()[2:]
    assert len(table) >= 20
    assert all(re.search(r"`tests/[\w./-]+\.py::\w+` \|$", row) for row in table)
