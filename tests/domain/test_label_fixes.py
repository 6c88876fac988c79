"""Corrected labels: the same file but for the answers, and a patch that the real git applies."""

import json
import subprocess
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.errors import InputError
from app.domain.golden import GoldenTexts
from app.domain.label_fixes import corrected, label_fixes, patch
from app.domain.reading import read_golden_set
from app.domain.review import Answers, Review, Ruling, standing

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_only_the_answers_of_the_question_are_written_anew() -> None:
    text = (
        '{"id": "a", "question": "One?", "answers": ["d1"]}\n'
        '{"note":"é","answers" : [ "d1" ,\t"d2"] , "id":"b","question":"answers: [\\"d1\\"]", "facts": ["answers"]}\r\n'
        "\n"
        '{"id": "c", "question": "Three?", "answers": []}'
    )
    assert corrected(text, {"b": ("d3", "d4")}) == (
        '{"id": "a", "question": "One?", "answers": ["d1"]}\n'
        '{"note":"é","answers" : ["d3", "d4"] , "id":"b","question":"answers: [\\"d1\\"]", "facts": ["answers"]}\r\n'
        "\n"
        '{"id": "c", "question": "Three?", "answers": []}'
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"id":"a","answers":["x"]}', '{"id":"a","answers":["ü",["y","z"]]}'),
        ('{"id": "a", "answers": ["x"]}', '{"id": "a", "answers": ["ü", ["y", "z"]]}'),
        (
            '{"id":"a","note":"\\u00e4","answers":[]}',
            '{"id":"a","note":"\\u00e4","answers":["\\u00fc",["y","z"]]}',
        ),
        (
            '{"\\u0061nswers": [], "id": "\\u0061"}',
            '{"\\u0061nswers": ["\\u00fc", ["y", "z"]], "id": "\\u0061"}',
        ),
        ('{"metadata":{"n":1e400,"i":' + "9" * 5000 + '},"id":"a","answers":[]}', None),
    ],
)
def test_the_new_answers_are_written_in_the_style_of_the_line(line: str, expected: str | None) -> None:
    found = corrected(line, {"a": ("ü", ("y", "z"))})
    assert found == (expected or line.replace('"answers":[]', '"answers":["ü",["y","z"]]'))


def test_a_mark_at_the_start_of_the_file_stays() -> None:
    text = '\ufeff{"id": "a", "question": "One?", "answers": ["d1"]}\r\n'
    assert corrected(text, {"a": ("d2",)}) == text.replace("d1", "d2")


def test_line_separators_of_other_alphabets_end_no_line() -> None:
    text = '{"id": "a", "question": "One\u2028two\x85three?", "answers": ["d1"]}\n'
    assert corrected(text, {"a": ("d2",)}) == text.replace("d1", "d2")
    assert patch("hr", text, text.replace("d1", "d2")).count(b"\n") == 6


def test_without_a_fix_nothing_changes() -> None:
    text = '\ufeff\n{"id": "a", "question": "One?", "answers": []}\r\n \n'
    assert corrected(text, {}) == text
    assert patch("hr", text, text) == b""


def test_a_question_that_the_set_does_not_hold_is_refused() -> None:
    with pytest.raises(InputError, match="has no question 'z'"):
        corrected('{"id": "a", "answers": []}\n', {"z": ("d",)})


def review(question: str, decision: Ruling, minute: int, **keys: Any) -> Review:
    at = NOON.replace(minute=minute)
    return Review(question=question, decision=decision, id=f"r{minute:02}", run="r", at=at, **keys)


def test_fixes_are_what_the_standing_decisions_say() -> None:
    reviews = [
        review("a", Ruling.LABEL_OUT_OF_DATE, 1, answers=("old",)),
        review("a", Ruling.LABEL_OUT_OF_DATE, 2, answers=("new",)),
        review("b", Ruling.LABEL_OUT_OF_DATE, 3, answers=("x",)),
        review("b", Ruling.REAL_LOSS, 4),
        review("c", Ruling.ACCEPTABLE, 5, reason="y"),
    ]
    assert label_fixes(standing(reviews, date(2026, 11, 30))) == {"a": ("new",)}


# git -----------------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str, data: bytes | None = None) -> str:
    command = ["git", "-c", "core.autocrlf=false", "-c", "core.safecrlf=false", *arguments]
    ran = subprocess.run(command, cwd=folder, input=data, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode()


def applied(folder: Path, name: str, before: str, change: bytes) -> bytes:
    """The file after git applied the patch, checked and through the index as well."""
    (folder / "golden").mkdir(parents=True)
    path = folder / "golden" / f"{name}.jsonl"
    path.write_bytes(before.encode())
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "apply", "--check", "-", data=change)
    git(folder, "apply", "--index", "-", data=change)
    assert git(folder, "diff", "--cached", "--name-only", "-z").strip("\0") == f"golden/{name}.jsonl"
    return path.read_bytes()


def many(end: str, *, last: bool, count: int = 40) -> str:
    made = [json.dumps({"id": f"q{n}", "question": f"Nº {n}?", "answers": [f"d{n}"]}) for n in range(count)]
    return end.join(made) + (end if last else "")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(
    "fixed", [(0,), (39,), (38, 39), (0, 1, 2), (5, 12, 20), (5, 13), (0, 39), tuple(range(40))]
)
def test_git_applies_the_patch(
    tmp_path: Path, end: str, last: bool, mark: str, fixed: tuple[int, ...]
) -> None:
    before = mark + many(end, last=last)
    after = corrected(before, {f"q{n}": ("new", "d1") for n in fixed})
    assert applied(tmp_path, "hr", before, patch("hr", before, after)) == after.encode()


@pytest.mark.parametrize(
    "name", ["two words", 'qu"ote', "über", "tab-less", "-dash", ".dot", "a'b", "$(x)", "日本", "a.b_c"]
)
def test_git_finds_the_file_of_any_name(tmp_path: Path, name: str) -> None:
    before = many("\n", last=True)
    after = corrected(before, {"q7": ("new",)})
    assert applied(tmp_path, name, before, patch(name, before, after)) == after.encode()


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/../../b", "x\n+++ b/evil", "..\\evil", "/etc/x"])
def test_a_name_leads_out_of_no_folder_and_starts_no_line(name: str) -> None:
    before = many("\n", last=True)
    lines = patch(name, before, corrected(before, {"q7": ("new",)})).split(b"\n")
    heads = [line for line in lines if line.startswith((b"---", b"+++", b"diff"))]
    assert len(heads) == 3
    for line in heads:
        assert line.count(b"/") == 2 * (2 if line.startswith(b"diff") else 1)
        assert b"\\\\" not in line


def test_the_patch_reads_as_a_reviewer_expects() -> None:
    before = many("\n", last=False, count=3)
    after = corrected(before, {"q2": ("new",)})
    assert patch("hr", before, after).decode() == (
        "diff --git a/golden/hr.jsonl b/golden/hr.jsonl\n"
        "--- a/golden/hr.jsonl\n"
        "+++ b/golden/hr.jsonl\n"
        "@@ -1,3 +1,3 @@\n"
        ' {"id": "q0", "question": "N\\u00ba 0?", "answers": ["d0"]}\n'
        ' {"id": "q1", "question": "N\\u00ba 1?", "answers": ["d1"]}\n'
        '-{"id": "q2", "question": "N\\u00ba 2?", "answers": ["d2"]}\n'
        "\\ No newline at end of file\n"
        '+{"id": "q2", "question": "N\\u00ba 2?", "answers": ["new"]}\n'
        "\\ No newline at end of file\n"
    )


# any file ------------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(str.strip)
KEYS = st.fixed_dictionaries(
    {"question": WORDS, "answers": st.lists(WORDS, max_size=3, unique=True)},
    optional={"note": WORDS, "facts": st.lists(WORDS, max_size=2), "metadata": st.dictionaries(WORDS, WORDS)},
)
SPACE = st.sampled_from(["", " ", "\t", "  "])


@st.composite
def files(draw: st.DrawFn) -> tuple[str, dict[str, Answers]]:
    """A golden set in any layout, and new answers for some of its questions."""
    lines: list[str] = []
    fixes: dict[str, Answers] = {}
    for number in range(draw(st.integers(1, 6))):
        members = [("id", f"q{number}\n'\""), *draw(KEYS).items()]
        ascii_only, colon = draw(st.booleans()), draw(SPACE) + ":" + draw(SPACE)
        comma, edge = draw(SPACE) + "," + draw(SPACE), draw(SPACE)
        shuffled = draw(st.permutations(members))
        inner = comma.join(
            json.dumps(key, ensure_ascii=ascii_only) + colon + json.dumps(value, ensure_ascii=ascii_only)
            for key, value in shuffled
        )
        lines.append(f"{edge}{{{edge}{inner}{edge}}}{edge}")
        if draw(st.booleans()):
            fixes[f"q{number}\n'\""] = tuple(draw(st.lists(WORDS, min_size=1, max_size=3, unique=True)))
        lines.extend(draw(st.lists(st.sampled_from(["", " ", "\t"]), max_size=1)))
    text = "".join(line + draw(st.sampled_from(["\n", "\r\n"])) for line in lines)
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    return draw(st.sampled_from(["", "\ufeff"])) + text, fixes


@given(files())
@settings(max_examples=300, deadline=None)
def test_every_file_keeps_all_but_the_answers(made: tuple[str, dict[str, Answers]]) -> None:
    before, fixes = made
    was = {each.id: each for each in read_golden_set(GoldenTexts(name="x", jsonl=before)).questions}
    after = corrected(before, fixes)
    now = {each.id: each for each in read_golden_set(GoldenTexts(name="x", jsonl=after)).questions}
    assert list(now) == list(was)
    for name, question in now.items():
        assert question.answers == fixes.get(name, was[name].answers)
    old, new = before.split("\n"), after.split("\n")
    assert len(old) == len(new)
    changed = [n for n, (one, other) in enumerate(zip(old, new, strict=True)) if one != other]
    assert len(changed) <= len(fixes)
    for number in changed:
        ids = json.loads(old[number].removeprefix("\ufeff"))["id"]
        assert ids in fixes
        assert old[number].endswith("\r") == new[number].endswith("\r")
    assert before.startswith("\ufeff") == after.startswith("\ufeff")


@given(made=files())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_git_applies_the_patch_of_any_file(
    made: tuple[str, dict[str, Answers]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    before, fixes = made
    after = corrected(before, fixes)
    change = patch("any", before, after)
    if after != before:
        assert applied(tmp_path_factory.mktemp("any"), "any", before, change) == after.encode()
    else:
        assert change == b""
