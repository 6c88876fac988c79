"""The TOML beside the questions: both sides' queries, the policy, the owner, the review date."""

from dataclasses import fields
from datetime import date

import pytest

from app.domain.errors import InputError
from app.domain.policy import Policy
from app.domain.query import (
    Embedding,
    FilterMode,
    Mode,
    ParentNames,
    QuerySettings,
    SearchMode,
    Session,
    Statistics,
    Syntax,
)
from app.domain.reading import overridden
from tests.domain.making import faults, line, read

_EVERY_KEY = """
owner = "hr-content@contoso.example"
review_by = 2027-03-01

[query]
mode = "hybrid"
semantic = true
semantic_configuration = "default"
key_field = "chunk_id"
parent_field = "parent_id"
text_field = "chunk"
title_field = "title"
vector_fields = ["content_vector"]
parent_names = ["base64url", "file-name"]
candidates = 40
k = 60
context_size = 6
min_reranker_score = 1.5
min_score = 0.01
filter = "country eq 'DE'"
session = "run"
search_fields = ["chunk", "title"]
search_mode = "all"
syntax = "simple"
scoring_profile = "fresh"
scoring_parameters = ["tag-a,b"]
scoring_statistics = "global"
exhaustive = true
vector_weight = 0.5
vector_filter_mode = "postFilter"
oversampling = 4

[query.embedding]
endpoint = "https://contoso.openai.azure.com"
deployment = "embed"
dimensions = 256
prefix = "query: "

[policy]
max_net_loss = 1
protected_slices = ["table"]
max_question_errors = 2
noise_runs = 2
confirm_runs = 3
max_noisy_share = 0.1
min_evaluated_share = 1
max_lost_documents_share = 0.01
max_net_destabilised = 4
max_documents_changed = 5
max_verdict_age_hours = 24
evidence_text = false
auto_rollback = true
"""


def test_every_key_of_the_format_is_read() -> None:
    golden = read(line(slice="table"), toml=_EVERY_KEY)
    assert golden.owner == "hr-content@contoso.example"
    assert golden.review_by == date(2027, 3, 1)
    assert golden.baseline_query == QuerySettings(
        mode=Mode.HYBRID,
        semantic=True,
        semantic_configuration="default",
        key_field="chunk_id",
        parent_field="parent_id",
        text_field="chunk",
        title_field="title",
        vector_fields=("content_vector",),
        parent_names=(ParentNames.BASE64URL, ParentNames.FILE_NAME),
        candidates=40,
        k=60,
        context_size=6,
        min_reranker_score=1.5,
        min_score=0.01,
        filter="country eq 'DE'",
        session=Session.RUN,
        search_fields=("chunk", "title"),
        search_mode=SearchMode.ALL,
        syntax=Syntax.SIMPLE,
        scoring_profile="fresh",
        scoring_parameters=("tag-a,b",),
        scoring_statistics=Statistics.GLOBAL,
        exhaustive=True,
        vector_weight=0.5,
        vector_filter_mode=FilterMode.POST,
        oversampling=4.0,
        embedding=Embedding(
            endpoint="https://contoso.openai.azure.com", deployment="embed", dimensions=256, prefix="query: "
        ),
    )
    assert golden.candidate_query == golden.baseline_query
    assert golden.policy == Policy(
        max_net_loss=1,
        protected_slices=("table",),
        max_question_errors=2,
        noise_runs=2,
        confirm_runs=3,
        max_noisy_share=0.1,
        min_evaluated_share=1.0,
        max_lost_documents_share=0.01,
        max_net_destabilised=4,
        max_documents_changed=5,
        max_verdict_age_hours=24,
        evidence_text=False,
        auto_rollback=True,
    )


def test_the_example_above_leaves_no_key_out() -> None:
    names = {each.name for kind in (QuerySettings, Policy) for each in fields(kind)} - {"embedding"}
    assert {name for name in names if f"\n{name} = " not in _EVERY_KEY} == set()


@pytest.mark.parametrize("toml", [None, "", "\ufeff", "# nothing yet\r\n[query]\r\n[policy]\r\n"])
def test_without_settings_the_defaults_of_the_contract_hold(toml: str | None) -> None:
    golden = read(line(), toml=toml)
    query, policy = golden.baseline_query, golden.policy
    assert golden.candidate_query == query
    assert (golden.owner, golden.review_by) == (None, None)
    assert (query.mode, query.semantic, query.semantic_configuration) == (Mode.HYBRID, True, None)
    assert (query.candidates, query.k, query.context_size) == (50, 50, 5)
    assert (query.min_score, query.min_reranker_score, query.filter) == (0.0, 0.0, "")
    assert (query.session, query.parent_names) == (Session.NONE, ())
    assert (policy.max_net_loss, policy.protected_slices, policy.max_question_errors) == (0, (), 0)
    assert (policy.noise_runs, policy.confirm_runs) == (1, 1)
    assert (policy.max_noisy_share, policy.min_evaluated_share) == (0.2, 0.9)
    assert (policy.max_lost_documents_share, policy.max_net_destabilised) == (None, None)
    assert (policy.max_documents_changed, policy.max_verdict_age_hours, policy.evidence_text) == (0, 72, True)
    assert policy.auto_rollback is False


def test_bom_and_crlf_are_tolerated() -> None:
    assert read(line(), toml="\ufeff[query]\r\nk = 60\r\n").baseline_query.k == 60


# sides


def test_a_side_overrides_any_key_for_itself_alone() -> None:
    toml = """
    [query]
    k = 60
    filter = "country eq 'DE'"
    [query.baseline]
    mode = "keyword"
    [query.candidate]
    k = 80
    parent_field = "doc_id"
    """
    golden = read(line(), toml=toml)
    assert (golden.baseline_query.mode, golden.candidate_query.mode) == (Mode.KEYWORD, Mode.HYBRID)
    assert (golden.baseline_query.k, golden.candidate_query.k) == (60, 80)
    assert (golden.baseline_query.parent_field, golden.candidate_query.parent_field) == (None, "doc_id")
    assert golden.baseline_query.filter == golden.candidate_query.filter == "country eq 'DE'"


def test_the_embedding_may_belong_to_one_side() -> None:
    toml = '[query.candidate.embedding]\nendpoint = "http://127.0.0.1:8000"\ndeployment = "small"'
    golden = read(line(), toml=toml)
    assert golden.baseline_query.embedding is None
    assert golden.candidate_query.embedding == Embedding(endpoint="http://127.0.0.1:8000", deployment="small")


def test_a_side_may_switch_off_what_the_common_part_needs() -> None:
    toml = "[query]\nmin_reranker_score = 1.5\n[query.candidate]\nsemantic = false\nmin_reranker_score = 0.0"
    assert read(line(), toml=toml).candidate_query.min_reranker_score == 0.0


# faults, with their lines


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("ownr = 'a'", "hr.toml:1: ownr: is not a key of this format; did you mean 'owner'?"),
        ("\nowner = ''", "hr.toml:2: owner: must be a non-empty string"),
        ("owner = 1", "hr.toml:1: owner: must be a non-empty string"),
        (
            "review_by = '2027-03-01'",
            "hr.toml:1: review_by: must be a date such as 2027-03-01, without quotes",
        ),
        ("review_by = 2027-03-01T00:00:00Z", "hr.toml:1: review_by: must be a date such as 2027-03-01"),
        ("query = 1", "hr.toml:1: query: must be a table, [query]"),
        ("[policy]\nx = [\n1,", "hr.toml:3: is not valid TOML: "),
        ("[query]\nk = 1\nk = 2", "hr.toml:3: is not valid TOML: Cannot overwrite a value"),
        (
            "[query]\n\nmode = 'bm25'",
            "hr.toml:3: [query] mode: input should be 'hybrid', 'keyword' or 'vector'",
        ),
        ("[query]\nsemantic = 'true'", "hr.toml:2: [query] semantic: input should be a valid boolean"),
        ("[query]\nsemantic = 1", "hr.toml:2: [query] semantic: input should be a valid boolean"),
        ("[query]\nk = 0", "hr.toml:2: [query] k: "),
        ("[query]\nk = 5.0", "hr.toml:2: [query] k: input should be a valid integer"),
        ("[query]\nk = '5'", "hr.toml:2: [query] k: input should be a valid integer"),
        ("[query]\nk = 0xffff_ffff_ffff", "hr.toml:2: [query] k: "),
        ("[query]\ncontext_size = 0", "hr.toml:2: [query] context_size: "),
        ("[query]\ncontext_size = -1", "hr.toml:2: [query] context_size: "),
        ("[query]\nmin_score = nan", "hr.toml:2: [query] min_score: holds a number that is not finite"),
        ("[query]\nmin_score = -0.1", "hr.toml:2: [query] min_score: "),
        ("[query]\nmin_reranker_score = 4.1", "hr.toml:2: [query] min_reranker_score: "),
        ("[query]\nvector_fields = []", "hr.toml:2: [query] vector_fields: "),
        ("[query]\nvector_fields = 'a'", "hr.toml:2: [query] vector_fields: "),
        ("[query]\nparent_field = ' '", "hr.toml:2: [query] parent_field: must not be blank"),
        (
            "[query]\nparent_names = ['base64']",
            "hr.toml:2: [query] parent_names.0: input should be 'base64url'",
        ),
        ("[query]\nscoring_profile = 2027-03-01", "hr.toml:2: [query] scoring_profile: must not be a date"),
        (
            "[query]\ncontextsize = 5",
            "hr.toml:2: [query] contextsize: is not a key of this format; did you mean",
        ),
        ("[query.candidat]\nk = 5", "hr.toml:1: [query] candidat: is not a key of this format; did you mean"),
        ("[query]\n[query.candidate]\nk = 0", "hr.toml:3: [query.candidate] k: "),
        ("[query.baseline.candidate]\nk = 1", "hr.toml:1: [query.baseline] candidate: is not a key"),
        ("query.k = 0", "hr.toml:1: [query] k: "),
        ("\nquery = { mode = 'hybrid', k = 0 }", "hr.toml:2: [query] k: "),
        ("[query]\nbaseline.k = 0", "hr.toml:2: [query.baseline] k: "),
        ("[query]\n'k' = 0", "hr.toml:2: [query] k: "),
        ("\n[query.embedding]\ndeployment = 'a'", "hr.toml:2: [query] embedding.endpoint: is required"),
        (
            "[query.embedding]\nendpoint = 'contoso'\ndeployment = 'a'",
            "hr.toml:2: [query] embedding.endpoint: must be an http or https address",
        ),
        (
            "[query.embedding]\nendpoint = 'http://a'\ndeployment = 'a'\nmodel = 'b'",
            "hr.toml:4: [query] embedding.model: is not a key of this format",
        ),
        ("[policy]\nmax_net_loss = -1", "hr.toml:2: [policy] max_net_loss: "),
        ("[policy]\nmax_net_loss = 1.5", "hr.toml:2: [policy] max_net_loss: input should be a valid integer"),
        ("[policy]\nnoise_runs = true", "hr.toml:2: [policy] noise_runs: input should be a valid integer"),
        ("[policy]\nmax_noisy_share = 1.01", "hr.toml:2: [policy] max_noisy_share: "),
        ("[policy]\nmin_evaluated_share = -0.1", "hr.toml:2: [policy] min_evaluated_share: "),
        ("[policy]\nmax_verdict_age_hours = inf", "hr.toml:2: [policy] max_verdict_age_hours: "),
        ("[policy]\nmax_verdict_age_hours = 1e300", "hr.toml:2: [policy] max_verdict_age_hours: "),
        ("[policy]\nmax_verdict_age_hours = 0", "hr.toml:2: [policy] max_verdict_age_hours: "),
        (
            "[policy]\nmax_nois_share = 0.1",
            "hr.toml:2: [policy] max_nois_share: is not a key of this format; did you mean 'max_noisy_share'?",
        ),
    ],
)
def test_a_setting_out_of_the_ordinary_is_refused_with_its_line(toml: str, expected: str) -> None:
    (found,) = faults(line(), toml=toml)
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("[query]\ncontext_size = 51", "context_size (51) is above candidates (50)"),
        ("[query]\ncandidates = 4", "context_size (5) is above candidates (4)"),
        ("[query]\ncandidates = 51", "candidates (51) is above 50: the semantic ranker scores no more"),
        ("[query]\nsemantic = false\nmin_reranker_score = 1.0", "min_reranker_score needs semantic = true"),
        ("[query]\nsyntax = 'full'", 'syntax = "full" does not go with semantic = true'),
        (
            "[query]\nmode = 'keyword'\nembedding = {endpoint = 'http://a', deployment = 'b'}",
            'embedding is not used with mode = "keyword"',
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(toml: str, expected: str) -> None:
    (found,) = faults(line(), toml=toml)
    assert found.startswith(f"hr.toml:1: [query] {expected}")


@pytest.mark.parametrize(
    "toml",
    [
        "[query]\ncontext_size = 50",
        "[query]\nsemantic = false\ncandidates = 51",
        "[query]\nsemantic = false\nsyntax = 'full'",
        "[policy]\nmax_noisy_share = 1\nmin_evaluated_share = 0",
        "[policy]\nnoise_runs = 0\nconfirm_runs = 0",
    ],
)
def test_settings_at_their_limits_are_accepted(toml: str) -> None:
    assert read(line(), toml=toml).questions


def test_settings_that_do_not_go_together_are_found_beside_other_faults() -> None:
    found = faults(line(), toml="[query]\ncandidates = 51\nkk = 1")
    assert len(found) == 2


def test_all_faults_of_the_settings_come_in_the_order_of_their_lines() -> None:
    toml = (
        "zeta = 1\nalpha = 1\n[policy]\nmax_net_loss = -1\n[query]\nk = 0\nmode = 1\n[query.baseline]\nk = 0"
    )
    assert [fault.split(":")[1] for fault in faults(line(), toml=toml)] == ["1", "2", "4", "6", "7", "9"]


def test_a_protected_slice_without_a_question_would_guard_nothing() -> None:
    toml = "[policy]\nprotected_slices = ['table', 'tabel']"
    assert faults(line(slice="table"), toml=toml) == [
        "hr.toml:2: [policy] protected_slices: no question is in the slice 'tabel'; did you mean 'table'?"
    ]


def test_k_below_candidates_is_a_warning_only() -> None:
    query = read(line(), toml="[query]\nk = 49").baseline_query
    assert query.warnings() == ("k (49) is below candidates (50): the vector leg is under-fed",)
    assert read(line()).baseline_query.warnings() == ()
    assert read(line(), toml="[query]\nk = 49\nmode = 'keyword'").baseline_query.warnings() == ()


# a policy of a request


def test_a_request_replaces_some_settings_and_keeps_the_others() -> None:
    policy = overridden(Policy(max_net_loss=2, noise_runs=3), {"max_net_loss": 0}, "request")
    assert policy == Policy(max_net_loss=0, noise_runs=3)


def test_a_request_may_unset_a_limit() -> None:
    policy = overridden(Policy(max_net_destabilised=2), {"max_net_destabilised": None}, "request")
    assert policy.max_net_destabilised is None


def test_all_faults_of_a_requested_policy_are_listed() -> None:
    with pytest.raises(InputError) as caught:
        overridden(Policy(), {"max_net_loss": "0", "noise_run": 1, "max_noisy_share": 2}, "request")
    assert sorted(fault.message.split(": ")[0] for fault in caught.value.faults) == [
        "[policy] max_net_loss",
        "[policy] max_noisy_share",
        "[policy] noise_run",
    ]
    assert {(fault.where, fault.line) for fault in caught.value.faults} == {("request", None)}
