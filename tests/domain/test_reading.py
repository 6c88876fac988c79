"""The question file: what is read, what is refused, and how it is said."""

import json

import pytest

from app.domain.errors import InputError
from app.domain.golden import GoldenTexts, Span
from app.domain.reading import decoded, read_golden_set
from tests.domain.making import faults, line, read

_THREE = [line("q1", question="Wie viel Urlaub?"), line("q2"), line("q3")]


# the format


def test_every_key_of_the_format_is_read() -> None:
    full = {
        "id": "q1",
        "question": "How much leave?",
        "answers": ["d1", ["d2", "d3"]],
        "require_all": True,
        "critical": True,
        "slice": ["lookup", "table"],
        "family": "leave",
        "filter": "country eq 'DE'",
        "forbidden": ["secret"],
        "owner": "hr@contoso.example",
        "note": "see the table",
        "spans": [{"document": "d1", "start": 2, "end": 7, "text": "leave"}],
        "facts": ["30 days"],
        "reference_answer": "30 days a year",
        "metadata": {"from": "ticket 4711", "depth": {"any": [1, 2.5, None]}},
    }
    (question,) = read(json.dumps(full)).questions
    assert question.id == "q1"
    assert question.question == "How much leave?"
    assert question.answers == ("d1", ("d2", "d3"))
    assert question.require_all
    assert question.critical
    assert question.slice == ("lookup", "table")
    assert question.family == "leave"
    assert question.filter == "country eq 'DE'"
    assert question.forbidden == ("secret",)
    assert question.owner == "hr@contoso.example"
    assert question.note == "see the table"
    assert question.spans == (Span(document="d1", start=2, end=7, text="leave"),)
    assert question.facts == ("30 days",)
    assert question.reference_answer == "30 days a year"
    assert question.metadata == {"from": "ticket 4711", "depth": {"any": [1, 2.5, None]}}


def test_three_keys_are_enough_and_flags_are_off() -> None:
    (question,) = read('{"id": "q1", "question": "How much leave?", "answers": []}').questions
    assert not question.require_all
    assert not question.critical
    assert question.answers == ()
    assert question.slice == ()


def test_a_slice_may_be_one_string_or_several() -> None:
    one, two = read(line("q1", slice="table"), line("q2", slice=["table", "exception"])).questions
    assert one.slice == ("table",)
    assert two.slice == ("table", "exception")


def test_the_question_is_kept_as_typed() -> None:
    typed = "  Überstunden\t– wieviel?  \u2028 ja "
    assert read(line("q1", question=typed)).questions[0].question == typed


def test_a_line_separator_inside_a_string_does_not_end_the_line() -> None:
    text = '{"id": "q1", "question": "a\u2028b\u0085c", "answers": []}'
    assert read(text).questions[0].question == "a\u2028b\u0085c"


def test_questions_keep_the_order_of_the_file() -> None:
    assert [each.id for each in read(line("b"), line("a"), line("c")).questions] == ["b", "a", "c"]


@pytest.mark.parametrize("text", ["", "\n", "  \n\t\r\n \n", "\ufeff"])
def test_s19_an_empty_file_is_an_empty_set(text: str) -> None:
    assert read(text).questions == ()


# byte-order mark, CRLF, other encodings (S01)


def _from_bytes(data: bytes) -> list[tuple[str, str]]:
    texts = GoldenTexts(name="hr", jsonl=decoded(data, "hr.jsonl"))
    return [(each.id, each.question) for each in read_golden_set(texts).questions]


def test_s01_bom_crlf_and_a_final_empty_line_make_no_difference() -> None:
    unix = "\n".join(_THREE).encode()
    windows = b"\xef\xbb\xbf" + "\r\n".join([*_THREE, "", ""]).encode()
    assert _from_bytes(windows) == _from_bytes(unix)
    assert _from_bytes(unix)[0] == ("q1", "Wie viel Urlaub?")
    assert read("\ufeff" + "\r\n".join([*_THREE, "", ""])).digest == read(*_THREE).digest


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_s01_utf_16_is_refused_by_its_name(encoding: str) -> None:
    with pytest.raises(InputError, match=r"^hr.jsonl: is UTF-16, not UTF-8"):
        decoded("\n".join(_THREE).encode(encoding), "hr.jsonl")


def test_s01_another_encoding_is_refused_at_its_line() -> None:
    data = (line("q1") + "\n" + '{"id": "q2", "question": "Gehälter"').encode("latin-1")
    with pytest.raises(InputError, match=r"^hr.jsonl:2: is not UTF-8 \(byte 0xe4\)"):
        decoded(data, "hr.jsonl")


def test_a_bom_in_the_middle_is_refused() -> None:
    assert faults(line("q1"), "\ufeff" + line("q2"))[0].startswith("hr.jsonl:2: is not valid JSON")


# what counts as a flag (S02)


@pytest.mark.parametrize("flag", ["critical", "require_all"])
def test_s02_only_true_and_false_are_flags(flag: str) -> None:
    lines = [line(f"q{n}", **{flag: value}) for n, value in enumerate(["false", "no", 0, "nope", None, 1])]
    found = faults(*lines)
    assert [fault.split(" ")[0] for fault in found] == [f"hr.jsonl:{n}:" for n in range(1, 7)]
    assert all(f" {flag}: " in fault and "boolean" in fault for fault in found)


# ids that repeat (S03)


def test_s03_an_id_used_twice_names_both_lines() -> None:
    lines = [line(f"q{n:03}") for n in range(1, 20)]
    lines[3] = line("q010", question="on line 4")
    lines[9] = line("other")
    lines[18] = line("q010", question="on line 19")
    assert faults(*lines) == ["hr.jsonl:19: id 'q010' is used on lines 4, 19"]


def test_s03_a_repeated_id_is_found_on_a_line_with_another_fault() -> None:
    found = faults(line("q1"), "", line("q1", critical="yes"), line("q1"))
    assert len(found) == 2
    assert "hr.jsonl:3: id 'q1' is used on lines 1, 3, 4" in found


def test_s03_ids_that_differ_in_case_are_two_questions() -> None:
    assert [each.id for each in read(line("q011"), line("Q011")).questions] == ["q011", "Q011"]


# what is refused


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"id": ""}, "id: must not be blank"),
        ({"id": "  "}, "id: must not be blank"),
        ({"id": 7}, "id: input should be a valid string"),
        ({"id": None}, "id: input should be a valid string"),
        ({"question": ""}, "question: must not be blank"),
        ({"question": ["a"]}, "question: input should be a valid string"),
        ({"answers": "d1"}, "answers: each entry is a non-empty string"),
        ({"answers": None}, "answers: each entry is a non-empty string"),
        ({"answers": [""]}, "answers: each entry is a non-empty string"),
        ({"answers": [1]}, "answers: each entry is a non-empty string"),
        ({"answers": [[]], "require_all": True}, "answers: each entry is a non-empty string"),
        ({"answers": [["d1", ""]], "require_all": True}, "answers: each entry is a non-empty string"),
        ({"answers": [[["d1"]]], "require_all": True}, "answers: each entry is a non-empty string"),
        ({"answers": [["d1", "d2"]]}, "answers: an array of alternatives needs require_all = true"),
        ({"answers": ["d1", "d1"]}, "answers: the same entry stands twice"),
        ({"answers": ["d1", ["d1"]], "require_all": True}, "answers: the same entry stands twice"),
        (
            {"answers": [["d1", "d2"], ["d2", "d1"]], "require_all": True},
            "answers: the same entry stands twice",
        ),
        (
            {"answers": [["d1", "d1"]], "require_all": True},
            "answers: the same document stands twice in one entry",
        ),
        ({"slice": ""}, "slice: must be a non-empty string or an array of them"),
        ({"slice": ["a", 1]}, "slice: must be a non-empty string or an array of them"),
        ({"slice": None}, "slice: must be a non-empty string or an array of them"),
        ({"slice": ["a", "a"]}, "slice: the same name stands twice"),
        ({"family": ""}, "family: must not be blank"),
        ({"family": None}, "family: null is not a value; leave the key out"),
        ({"note": None}, "note: null is not a value; leave the key out"),
        ({"filter": 1}, "filter: input should be a valid string"),
        ({"forbidden": "d2"}, "forbidden: "),
        ({"forbidden": [""]}, "forbidden.0: must not be blank"),
        ({"forbidden": ["d2", "d2"]}, "forbidden: the same document stands twice"),
        ({"forbidden": ["d1"]}, "the document 'd1' is both an answer and forbidden"),
        (
            {"answers": ["d2", ["d1", "d3"]], "require_all": True, "forbidden": ["d3"]},
            "the document 'd3' is both an answer and forbidden",
        ),
        ({"facts": "30 days"}, "facts: "),
        ({"reference_answer": 30}, "reference_answer: input should be a valid string"),
        ({"metadata": ["a"]}, "metadata: "),
        ({"spans": [{"document": "d1", "start": 5, "end": 5}]}, "spans: end (5) must be above start (5)"),
        ({"spans": [{"document": "d1", "start": -1, "end": 5}]}, "spans.0.start: "),
        ({"spans": [{"document": "d1", "start": 1.0, "end": 5}]}, "spans.0.start: "),
        ({"spans": [{"document": "d1", "start": 0}]}, "spans.0.end: is required"),
        ({"spans": [{"document": "", "start": 0, "end": 1}]}, "spans.0.document: must not be blank"),
        (
            {"spans": [{"document": "d1", "start": 0, "end": 1, "txt": "a"}]},
            "spans.0.txt: is not a key of this format",
        ),
        (
            {"spans": [{"document": "d1", "start": 0, "end": 4, "text": "leave"}]},
            "spans: text has 5 characters, start and end say 4",
        ),
    ],
)
def test_a_value_out_of_the_ordinary_is_refused(keys: dict[str, object], message: str) -> None:
    content = {"id": "q1", "question": "how?", "answers": ["d1"], **keys}
    (found,) = faults(line("q0"), json.dumps(content))
    assert found.startswith(f"hr.jsonl:2: {message}")


@pytest.mark.parametrize("key", ["id", "question", "answers"])
def test_a_required_key_that_is_not_there_is_named(key: str) -> None:
    content = {"id": "q1", "question": "how?", "answers": ["d1"]}
    del content[key]
    assert faults(json.dumps(content)) == [f"hr.jsonl:1: {key}: is required"]


def test_a_misspelt_key_is_refused_with_the_nearest_one() -> None:
    assert faults(line("q1", critcal=True)) == [
        "hr.jsonl:1: critcal: is not a key of this format; did you mean 'critical'?"
    ]


def test_a_key_like_no_other_is_refused_without_a_guess() -> None:
    assert faults(line("q1", zzz=1)) == ["hr.jsonl:1: zzz: is not a key of this format"]


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "q1", "question": "how?", "answers": [], "critical": false, "critical": true}',
        '{"id": "q1", "question": "how?", "answers": [], "critical": true, "critical": true}',
    ],
)
def test_a_key_that_stands_twice_is_refused(text: str) -> None:
    assert faults(text) == ["hr.jsonl:1: the key 'critical' stands twice in one object"]


def test_a_key_that_stands_twice_is_refused_in_inner_objects_too() -> None:
    text = '{"id": "q1", "question": "how?", "answers": [], "metadata": {"a": [{"b": 1, "b": 2}]}}'
    assert faults(text) == ["hr.jsonl:1: the key 'b' stands twice in one object"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_none_is_refused(number: str) -> None:
    text = '{"id": "q1", "question": "how?", "answers": [], "metadata": {"a": [%s]}}'
    assert faults(text % number) == ["hr.jsonl:1: metadata: holds a number that is not finite"]


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_number_too_large_for_others_to_read_is_refused(digits: int) -> None:
    text = '{"id": "q1", "question": "how?", "answers": [], "metadata": {"a": %s}}'
    assert faults(text % ("9" * digits))[0].endswith("holds a number that is too large")


@pytest.mark.parametrize("depth", [60, 300, 100_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    text = '{"id": "q1", "question": "how?", "answers": [], "metadata": {"a": %s}}'
    assert faults(text % ("[" * depth + "]" * depth))[0].endswith("is nested too deeply")


@pytest.mark.parametrize("half", ['"\\ud83d"', '"\ud83d"', '["a", {"b": "\\ude00"}]', '{"\\ud83d": 1}'])
def test_half_of_a_surrogate_pair_is_refused(half: str) -> None:
    text = '{"id": "q1", "question": "how?", "answers": [], "metadata": {"a": %s}}' % half  # noqa: UP031
    assert faults(text) == ["hr.jsonl:1: metadata: holds half of a surrogate pair"]


@pytest.mark.parametrize("text", ["[]", "1", '"q1"', "null", "true"])
def test_a_line_that_is_no_object_is_refused(text: str) -> None:
    assert faults(text) == ["hr.jsonl:1: is not a JSON object"]


@pytest.mark.parametrize("text", ["{", "{'id': 'q1'}", '{"id": "q1",}', line("q1") + line("q2"), "// note"])
def test_a_line_that_is_no_json_is_refused_with_its_column(text: str) -> None:
    (found,) = faults(line("q0"), text)
    assert found.startswith("hr.jsonl:2: is not valid JSON: ")
    assert " at column " in found


def test_old_macintosh_line_ends_are_refused() -> None:
    assert faults(line("q1") + "\r" + line("q2"))[0].startswith("hr.jsonl:1: is not valid JSON: Extra data")


# more require_all entries than the context holds


def _with_entries(number: int) -> str:
    return line("q1", answers=[f"d{n}" for n in range(number)], require_all=True)


def test_as_many_entries_as_the_context_holds_are_accepted_and_one_more_is_not() -> None:
    assert len(read(_with_entries(5)).questions[0].entries) == 5
    assert faults(_with_entries(6)) == [
        "hr.jsonl:1: require_all with 6 entries can never hold in a context of 5 chunks"
    ]


def test_alternatives_count_as_one_entry() -> None:
    text = line("q1", answers=[["a", "b", "c"], ["d", "e", "f"]], require_all=True)
    assert len(read(text, toml="[query]\ncontext_size = 2").questions[0].entries) == 2


def test_the_smaller_context_of_both_sides_counts() -> None:
    toml = "[query]\ncontext_size = 6\n[query.candidate]\ncontext_size = 4"
    assert "context of 4 chunks" in faults(_with_entries(5), toml=toml)[0]
    toml = "[query]\ncontext_size = 4\n[query.candidate]\ncontext_size = 6"
    assert "context of 4 chunks" in faults(_with_entries(5), toml=toml)[0]


def test_many_answers_of_a_plain_question_are_alternatives() -> None:
    assert len(read(line("q1", answers=[f"d{n}" for n in range(9)])).questions[0].entries) == 1


# all at once


def test_all_faults_of_both_files_are_listed_by_file_and_line() -> None:
    toml = 'owner = ""\n[query]\nmode = "bm25"\n[policy]\nmax_net_los = 1'
    found = faults(line("q1", critcal=True), "", "{", line("q3", answers=["a", "a"]), line("q1"), toml=toml)
    assert [": ".join(fault.split(": ")[:2]) for fault in found] == [
        "hr.toml:1: owner",
        "hr.toml:3: [query] mode",
        "hr.toml:5: [policy] max_net_los",
        "hr.jsonl:1: critcal",
        "hr.jsonl:3: is not valid JSON",
        "hr.jsonl:4: answers",
        "hr.jsonl:5: id 'q1' is used on lines 1, 5",
    ]


def test_one_fault_of_a_line_does_not_hide_the_others() -> None:
    text = (
        '{"id": "", "critcal": 1, "answers": ["d1", "d1"], "forbidden": ["d1"], "critical": "no", '
        '"metadata": {"a": NaN, "b": 1, "b": 2}}'
    )
    assert sorted(fault.removeprefix("hr.jsonl:1: ").split(": ")[0] for fault in faults(text)) == sorted(
        [
            "id",
            "critcal",
            "question",
            "answers",
            "the document 'd1' is both an answer and forbidden",
            "critical",
            "metadata",
            "the key 'b' stands twice in one object",
        ]
    )


def test_a_broken_flag_is_not_followed_by_guesses_about_the_answers() -> None:
    found = faults(line("q1", answers=[["a", "b"], "c"], require_all="yes"))
    assert len(found) == 1
    assert found[0].startswith("hr.jsonl:1: require_all: ")


def test_a_fault_beside_the_context_size_does_not_change_what_the_context_holds() -> None:
    toml = "[query]\ncontext_size = 6\nkk = 50"
    assert [fault.split(":")[0] for fault in faults(_with_entries(6), toml=toml)] == ["hr.toml"]


@pytest.mark.parametrize("toml", ["[query]\ncontext_size = 0", "[query"])
def test_entries_are_not_counted_against_an_unknown_context_size(toml: str) -> None:
    assert all(fault.startswith("hr.toml") for fault in faults(_with_entries(9), toml=toml))
