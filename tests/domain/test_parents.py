"""Values worked by hand or with `base64` on a shell."""

from typing import Any

import pytest

from app.domain.parents import decoded, parent_of
from app.domain.query import ParentNames

BASE64URL, FILE_NAME = ParentNames.BASE64URL, ParentNames.FILE_NAME
URL = "https://stcontoso.blob.core.windows.net/docs/pay.pdf"
URL_WITH_DIGIT = "aHR0cHM6Ly9zdGNvbnRvc28uYmxvYi5jb3JlLndpbmRvd3MubmV0L2RvY3MvcGF5LnBkZg2"
URL_WITH_EQUALS = "aHR0cHM6Ly9zdGNvbnRvc28uYmxvYi5jb3JlLndpbmRvd3MubmV0L2RvY3MvcGF5LnBkZg=="


@pytest.mark.parametrize("value", [URL_WITH_DIGIT, URL_WITH_EQUALS])
def test_both_padding_forms_of_the_indexers_base64_decode(value: str) -> None:
    assert decoded(value, [BASE64URL]) == URL


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("YWJj0", "abc"),  # no padding, counted
        ("YWJj", "abc"),  # no padding, plain
        ("YWI1", "ab"),  # one
        ("YWI=", "ab"),
        ("YQ2", "a"),  # two
        ("YQ==", "a"),
        ("w7w_w7w1", "ü?ü"),  # the URL-safe alphabet, and more than ASCII
    ],
)
def test_each_count_of_padding_decodes(value: str, text: str) -> None:
    assert decoded(value, [BASE64URL]) == text


@pytest.mark.parametrize(
    "value",
    [
        "",
        "doc1",
        "doc2",
        "hr-policy-2019",
        "pay.pdf",
        "YQ",  # padding neither there nor counted
        "YQ1",  # counted wrongly
        "YR==",  # bits that no encoder leaves
        "YWJjMQ=",
        "AAAA",  # control characters
        "_-__",  # not UTF-8
        "9d800bdacc0e_aHR0cHM6_pages_2",
        "Größe.pdf",
        "===",
        "=",
        "0",
    ],
)
def test_a_value_that_is_not_base64_stays_as_it_is(value: str) -> None:
    assert decoded(value, [BASE64URL]) == value


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (URL, "pay.pdf"),
        ("https://x.blob.core.windows.net/docs/a%20b/Pay%20%C3%BCber.pdf", "Pay über.pdf"),
        ("https://x.blob.core.windows.net/docs/pay.pdf?sv=1&sig=a/b#page=2", "pay.pdf"),
        ("https://x.blob.core.windows.net/docs/C%23%20guide.pdf", "C# guide.pdf"),
        ("docs/pay.pdf", "pay.pdf"),
        ("docs/what? #1.pdf", "what? #1.pdf"),
        ("C:\\docs\\pay.pdf", "pay.pdf"),
        ("docs/folder/", "folder"),
        ("pay.pdf", "pay.pdf"),
        ("docs/50%.pdf", "50%.pdf"),
        ("docs/%ff.pdf", "%ff.pdf"),
        ("", ""),
        ("/", "/"),
        ("https://[", "https://["),
    ],
)
def test_the_file_name_is_the_last_segment_percent_decoded(value: str, name: str) -> None:
    assert decoded(value, [FILE_NAME]) == name


def test_decodings_apply_in_their_order() -> None:
    assert decoded(URL_WITH_DIGIT, [BASE64URL, FILE_NAME]) == "pay.pdf"
    assert decoded(URL_WITH_DIGIT, [FILE_NAME, BASE64URL]) == URL
    assert decoded(URL_WITH_DIGIT, []) == URL_WITH_DIGIT


@pytest.mark.parametrize(
    ("row", "path", "parent"),
    [
        ({"parent_id": "d1"}, "parent_id", "d1"),
        ({"parent_id": None}, "parent_id", None),
        ({}, "parent_id", None),
        ({"parent_id": ""}, "parent_id", ""),
        ({"parent_id": 7}, "parent_id", "7"),
        ({"parent_id": True}, "parent_id", "true"),
        ({"parent_id": ["a", "ü"]}, "parent_id", '["a", "ü"]'),
        ({"metadata": '{"source": "d1"}'}, "metadata/source", "d1"),
        ({"metadata": {"source": "d1"}}, "metadata/source", "d1"),
        ({"metadata": {"inner": '{"source": 5}'}}, "metadata/inner/source", "5"),
        ({"metadata": '{"page": 3}'}, "metadata/source", None),
        ({"metadata": "{not json"}, "metadata/source", None),
        ({"metadata": '["source"]'}, "metadata/source", None),
        ({"metadata": None}, "metadata/source", None),
        ({"metadata": "[" * 100_000}, "metadata/source", None),
    ],
)
def test_the_parent_is_found_in_a_field_or_inside_it(
    row: dict[str, Any], path: str, parent: str | None
) -> None:
    assert parent_of(row, path) == parent


def test_the_found_value_is_decoded() -> None:
    row = {"metadata": f'{{"source": "{URL_WITH_DIGIT}"}}'}
    assert parent_of(row, "metadata/source", [BASE64URL, FILE_NAME]) == "pay.pdf"
