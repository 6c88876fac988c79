"""S01 to S03: what a golden set's file may be, from the file to the verdict."""

import codecs

from tests.e2e.programs import PLAIN, Gate, lines, outcomes, questions

POLICY = f"[policy]\n{PLAIN}"


def test_s01_bom_and_crlf_from_a_windows_editor(gate: Gate) -> None:
    three = questions("q1", "q2", "q3")
    three[0]["critical"] = True
    unix = lines(three)
    gate.golden("unix", unix, POLICY)
    windows = gate.folder / "windows.jsonl"
    windows.write_bytes(codecs.BOM_UTF8 + f"{unix}\n".replace("\n", "\r\n").encode())
    windows.with_suffix(".toml").write_bytes(codecs.BOM_UTF8 + POLICY.replace("\n", "\r\n").encode())

    checked = gate.together(*(("golden", "check", f"{name}.jsonl") for name in ("unix", "windows")))
    assert [each.status for each in checked] == [0, 0]
    assert ["3 questions, 1 critical" in each.out for each in checked] == [True, True]
    assert checked[0].out.splitlines()[1] == checked[1].out.splitlines()[1], "one digest"

    ended = gate.run("--golden", "unix.jsonl", "--golden", "windows.jsonl", "--out", "out")
    assert ended.status == 0, ended.said
    records = [gate.read(f"out/{name}") for name in ("unix", "windows")]
    assert [outcomes(each) for each in records] == [dict.fromkeys(("q1", "q2", "q3"), "kept")] * 2
    assert records[0]["golden_set"]["digest"] == records[1]["golden_set"]["digest"]
    for text in ("about q1", "about q2", "about q3"):
        assert len(gate.search.searches("kb-v2", text)) == 2, "a query of each run, without BOM or CR"


def test_s01_the_service_reads_texts_as_the_command_line_reads_files(gate: Gate) -> None:
    unix = lines(questions("q1", "q2"))
    windows = "\ufeff" + unix.replace("\n", "\r\n")
    with gate.serving() as service:
        runs = [
            service.done(service.start(golden={"name": "hr", "jsonl": text, "toml": POLICY})["id"])
            for text in (unix, windows)
        ]
    assert [each["verdict"] for each in runs] == ["PASS", "PASS"]
    assert runs[0]["golden_set"]["digest"] == runs[1]["golden_set"]["digest"]
    assert [each["question"] for each in runs[1]["questions"]] == ["about q1", "about q2"]


def test_s01_another_encoding_is_refused_by_its_name(gate: Gate) -> None:
    encodings = ("utf-16", "utf-16-le", "utf-16-be")
    for encoding in encodings:
        (gate.folder / f"{encoding}.jsonl").write_bytes(lines(questions("q1", "q2", "q3")).encode(encoding))
    ended = gate.run(*(part for name in encodings for part in ("--golden", f"{name}.jsonl")))
    ended.refused(*(f"error: {name}.jsonl: is UTF-16" for name in encodings))
    assert gate.kept == []


def test_s02_a_flag_that_is_no_boolean_is_refused_with_its_line(gate: Gate) -> None:
    wrong = ["false", "no", 0, "nope"]
    eight = [
        {**questions(f"q{place}")[0], flag: value}
        for place, (flag, value) in enumerate(
            [*(("critical", value) for value in wrong), *(("require_all", value) for value in wrong)], start=1
        )
    ]
    gate.golden("hr", [*eight, *questions("q9", "q10", "q11", "q12")])
    ended = gate.run("--golden", "hr.jsonl")
    ended.refused(*(f"hr.jsonl:{line}: " for line in range(1, 9)))
    assert len(ended.err.splitlines()) == 8
    assert ended.err.count("critical") == ended.err.count("require_all") == 4
    assert gate.kept == []
    assert gate.search.requests == []


def test_s03_the_same_id_twice_is_refused_with_both_lines(gate: Gate) -> None:
    many = questions(*(f"q{place:03}" for place in range(1, 21)))
    many[3]["id"] = many[18]["id"] = "q010"
    many[9]["id"] = "q100"
    gate.golden("hr", many)
    ended = gate.run("--golden", "hr.jsonl")
    ended.refused("'q010'", "hr.jsonl:19")
    assert "4" in ended.err.replace("hr.jsonl:19", "")
    assert gate.kept == []


def test_s03_ids_that_differ_in_case_are_two_questions(gate: Gate) -> None:
    gate.search.answer("kb-v2", "about q011", ["x"])
    gate.golden("hr", questions("q011", "Q011"), POLICY)
    ended, record = gate.record("--golden", "hr.jsonl")
    assert ended.status == 1
    assert outcomes(record) == {"q011": "lost", "Q011": "kept"}
