"""What becomes of text from outside, character by character."""

import pytest
from markdown_it import MarkdownIt

from app.report.escaping import clipped, encodable, markdown_code, markdown_prose, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ünïcödé, 漢字, 👍🏽, e\u0301", "plain, ünïcödé, 漢字, 👍🏽, e\u0301"),
        ("a\x00\x1b\x7f\x85", r"a\u0000\u001b\u007f\u0085"),
        ("a\tb\r\nc", r"a\tb\r\nc"),
        ("\u202e\u2066\u200f\u061c\u2028", r"\u202e\u2066\u200f\u061c\u2028"),
        ("\u200b\ufeff\u2060", r"\u200b\ufeff\u2060"),
        ("\ud83d \udc4d", r"\ud83d \udc4d"),
        ("\ufffe\uffff\ufdd0", r"\ufffe\uffff\ufdd0"),
        ("\U000e0041", r"\U000e0041"),
        ("می\u200cخواهم 👩\u200d🚀 Zuc\u00adker", "می\u200cخواهم 👩\u200d🚀 Zuc\u00adker"),
        ("##vso[x] ##VSO[x] ##[x] ###[x]", r"\u0023#vso[x] \u0023#VSO[x] \u0023#[x] #\u0023#[x]"),
        ("## heading #[x]", "## heading #[x]"),
    ],
)
def test_unseen_characters_become_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_lines_may_be_kept() -> None:
    assert visible("a\r\nb\tc\rd\x0b", lines=True) == "a\nb\tc\\rd\\u000b"


def test_only_what_utf8_cannot_hold_is_replaced_in_data() -> None:
    assert encodable("a\x00\u202e\ud83d") == "a\x00\u202e\\ud83d"


def test_a_clipped_text_says_so() -> None:
    assert clipped("abcdef", 6) == "abcdef"
    assert clipped("abcdefg", 6) == "abcde…"


@pytest.mark.parametrize(
    "text",
    [
        "a | b || c",
        r"a \| b \\ c \` d",
        "*a* _b_ __c__ ~~d~~ `e` ``f``",
        "[a](b) ![a](b) [a]: b [^1]",
        "<b>a</b> <!-- a --> &lt; &amp;",
        "# a",
        "1. a",
        "- a",
        "+ a",
        "> a",
        "---",
        "===",
        "snake_case_name $x$ $$y$$",
        "see https://a.example/x, www.a.example; me@a.example.",
        "`https://a.example/|x`",
        "javascript:alert(1)",
        ":smile: #42 !7",
        "file.md v1.2.3 3.5 z.B.",
    ],
)
def test_prose_renders_as_itself_on_its_own_and_in_a_table(text: str) -> None:
    prose = markdown_prose(text)
    shown = text.replace("`https://a.example/|x`", r"\u0060https://a.example/\u007cx\u0060")
    renderer = MarkdownIt("commonmark").enable("table")
    alone = renderer.parse(prose)
    assert [token.type for token in alone] == ["paragraph_open", "inline", "paragraph_close"]
    assert "".join(child.content for child in alone[1].children or ()) == shown
    assert {child.type for child in alone[1].children or ()} <= {"text", "text_special", "code_inline"}
    cells = [
        "".join(child.content for child in token.children or ())
        for token in renderer.parse(f"| x | y |\n| --- | --- |\n| {prose} | end |\n")
        if token.type == "inline"
    ]
    assert cells == ["x", "y", shown, "end"]


def test_nothing_to_show_is_said() -> None:
    assert markdown_prose("  ") == "(empty)"
    assert markdown_code("") == "(empty)"


def test_code_holds_no_fence_and_no_cell_of_its_own() -> None:
    assert markdown_code("a`b|c\n") == r"`a\u0060b\u007cc\n`"
