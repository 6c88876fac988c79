"""What the environment may say, and every fault of it at once."""

import os

import pytest

from app.domain.errors import InputError
from app.operate import live_command
from app.settings import Settings, read_settings
from infra.local.configuration import SECRET

STORE = "https://contoso.azconfig.io"
CONNECTION = f"Endpoint={STORE};Id=local;Secret={SECRET}"
ENDPOINT, STRING = "GATE_APPCONFIG_ENDPOINT", "GATE_APPCONFIG_CONNECTION_STRING"
NAME, LABEL, ALIAS = "GATE_LIVE_KEY", "GATE_LIVE_LABEL", "GATE_LIVE_ALIAS"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("GATE_"):
            monkeypatch.delenv(name)


def read(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Settings:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return read_settings()


def faults(monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, str]:
    """By variable. No fault tells a value that is a secret."""
    with pytest.raises(InputError) as caught:
        read(monkeypatch, **variables)
    assert SECRET not in str(caught.value)
    return {fault.where: fault.message for fault in caught.value.faults}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {ENDPOINT: STORE, NAME: "search:live-index"},
        {ENDPOINT: f"{STORE}/", NAME: "search:live-index", LABEL: "prod"},
        {ENDPOINT: STORE, NAME: "search:live-index", LABEL: ""},
        {STRING: CONNECTION, NAME: "Ü b/c:%41", LABEL: "prod eu"},
        {STRING: f" Secret={SECRET};Id=a:b+c/d=;Endpoint=http://127.0.0.1:8301; ", NAME: "k"},
        {ALIAS: "live"},
        {ALIAS: "live", NAME: "", LABEL: "", ENDPOINT: ""},
    ],
)
def test_what_is_live_is_kept_in_one_place_or_none(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    found = read(monkeypatch, **variables)
    assert found.live_key == (variables.get(NAME) or None)
    assert found.live_label == (variables.get(LABEL) or None)
    assert found.live_alias == (variables.get(ALIAS) or None)


@pytest.mark.parametrize(
    ("variables", "wrong"),
    [
        ({NAME: "k"}, {ENDPOINT: "GATE_LIVE_KEY"}),
        ({LABEL: "prod"}, {ENDPOINT: "GATE_LIVE_LABEL", NAME: "is not set"}),
        ({ENDPOINT: STORE}, {NAME: "is not set"}),
        ({STRING: CONNECTION, LABEL: "prod"}, {NAME: "is not set"}),
        ({ENDPOINT: STORE, STRING: CONNECTION, NAME: "k"}, {STRING: "one of them"}),
        ({ALIAS: "live", NAME: "k", ENDPOINT: STORE}, {ALIAS: "one place"}),
        ({ALIAS: "live", LABEL: "prod"}, {ALIAS: "one place"}),
        ({ENDPOINT: "http://127.0.0.1:8301", NAME: "k"}, {ENDPOINT: "use https"}),
        ({ENDPOINT: "contoso.azconfig.io", NAME: "k"}, {ENDPOINT: "address"}),
        ({STRING: CONNECTION, NAME: "search:*"}, {NAME: "exactly one"}),
        ({STRING: CONNECTION, NAME: "a,b"}, {NAME: "exactly one"}),
        ({STRING: CONNECTION, NAME: "a\\*b"}, {NAME: "exactly one"}),
        ({STRING: CONNECTION, NAME: "."}, {NAME: "no key"}),
        ({STRING: CONNECTION, NAME: ".."}, {NAME: "no key"}),
        ({STRING: CONNECTION, NAME: "%"}, {NAME: "no key"}),
        ({STRING: CONNECTION, NAME: "k", LABEL: "*"}, {LABEL: "exactly one"}),
        ({STRING: CONNECTION, NAME: "k", LABEL: "prod,test"}, {LABEL: "exactly one"}),
        ({STRING: CONNECTION, NAME: "k", LABEL: "prod\n"}, {LABEL: "exactly one"}),
        ({ALIAS: "Live Index"}, {ALIAS: "alias's name"}),
    ],
)
def test_what_does_not_go_together_is_told(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wrong: dict[str, str]
) -> None:
    found = faults(monkeypatch, **variables)
    assert found.keys() == wrong.keys()
    for name, words in wrong.items():
        assert words in found[name]


@pytest.mark.parametrize(
    "given",
    [
        SECRET,
        "Endpoint=https://contoso.azconfig.io",
        f"Endpoint={STORE};Id=local;Secret=",
        f"Endpoint={STORE};Id=;Secret={SECRET}",
        f"Endpoint={STORE};Id=a b;Secret={SECRET}",
        f"Endpoint={STORE};Id=local;Secret={SECRET[:-3]}",
        f"Endpoint={STORE};Id=local;Secret={SECRET};More=1",
        f"Endpoint=contoso.azconfig.io;Id=local;Secret={SECRET}",
        f"Endpoint=ftp://contoso;Id=local;Secret={SECRET}",
        f"endpoint={STORE};id=local;secret={SECRET}",
        f"Endpoint={STORE};Id=local;Secret=not base64!",
    ],
)
def test_a_connection_string_that_was_not_copied_whole_is_told_without_it(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    found = faults(monkeypatch, **{STRING: given, NAME: "k"})
    assert found.keys() == {STRING}
    assert given not in found[STRING]


def test_every_fault_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = faults(monkeypatch, **{ENDPOINT: "http://contoso", STRING: "x", LABEL: "*", "GATE_PORT": "http"})
    assert found.keys() == {ENDPOINT, STRING, LABEL, "GATE_PORT", NAME}


def test_a_connection_string_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SECRET not in repr(read(monkeypatch, **{STRING: CONNECTION, NAME: "k"}))


@pytest.mark.parametrize(
    "address",
    ["http://gate.example", "HTTP://gate.example:8080", "hTTp://10.0.0.1/", "http://127.0.0.1.example"],
)
@pytest.mark.parametrize(
    "sign_in", [{"GATE_SERVICE_TOKEN": "a-token-of-the-tests"}, {"GATE_SERVICE_SCOPE": "api://gate/.default"}]
)
def test_a_token_never_travels_in_clear_however_the_service_is_named(
    monkeypatch: pytest.MonkeyPatch, address: str, sign_in: dict[str, str]
) -> None:
    told = "is http, and a token would travel in clear: use https"
    settings = read(monkeypatch, **sign_in)
    for command in (
        lambda: settings.service(address),
        lambda: live_command(settings, address, name_only=True),
    ):
        with pytest.raises(InputError) as caught:
            command()
        assert [(each.where, each.message) for each in caught.value.faults] == [("--service", told)]
    assert faults(monkeypatch, GATE_SERVICE_URL=address) == {"GATE_SERVICE_URL": told}


def test_what_is_typed_goes_before_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(
        monkeypatch, GATE_SERVICE_URL="HTTPS://set.example/", GATE_SERVICE_TOKEN="a-token-of-the-tests"
    )
    assert settings.service(None) == "https://set.example"
    assert settings.service("") == "https://set.example"
    assert settings.service("https://typed.example/") == "https://typed.example"
    assert settings.service("http://127.0.0.1:8080") == "http://127.0.0.1:8080"
    for address in ("typed.example", "ftp://typed.example", "https://me:secret@typed.example"):
        with pytest.raises(InputError, match="--service: must"):
            settings.service(address)


@pytest.mark.parametrize("address", ["HTTP://search.example", "Http://search.example"])
def test_the_scheme_of_an_address_is_known_in_capitals_too(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    assert "in clear" in faults(monkeypatch, GATE_SEARCH_ENDPOINT=address)["GATE_SEARCH_ENDPOINT"]


# checks of Azure DevOps

CHECK, ORGANIZATIONS = "GATE_CHECK_SECRET", "GATE_CHECK_ORGANIZATIONS"
CHECK_SECRET = "0123456789abcdef0123456789abcdef"  # the shortest there may be
CONTOSO = "https://dev.azure.com/contoso"


def test_checks_take_a_secret_and_organisations(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch).check_secret is None
    two = f" {CONTOSO}/ ,https://contoso.visualstudio.com,"
    found = read(monkeypatch, **{CHECK: CHECK_SECRET, ORGANIZATIONS: two, ALIAS: "live"})
    assert found.check_organizations == (CONTOSO, "https://contoso.visualstudio.com")
    assert CHECK_SECRET not in repr(found)


@pytest.mark.parametrize(
    ("variables", "wrong"),
    [
        ({CHECK: CHECK_SECRET}, {ORGANIZATIONS: "is not set", NAME: "is not set"}),
        ({ORGANIZATIONS: CONTOSO, ALIAS: "live"}, {CHECK: "is not set"}),
        ({CHECK: CHECK_SECRET, ORGANIZATIONS: CONTOSO}, {NAME: "may be promoted"}),
        (
            {CHECK: CHECK_SECRET[1:], ORGANIZATIONS: "http://dev.azure.com/contoso"},
            {CHECK: "32", ORGANIZATIONS: "https", NAME: "is not set"},
        ),
        ({CHECK: f"{CHECK_SECRET}\n", ORGANIZATIONS: CONTOSO, ALIAS: "live"}, {CHECK: "copied whole"}),
        (
            {CHECK: CHECK_SECRET, ORGANIZATIONS: f"{CONTOSO},contoso", ALIAS: "live"},
            {ORGANIZATIONS: "address"},
        ),
        (
            {CHECK: CHECK_SECRET, ORGANIZATIONS: "https://a:b@x/y", ALIAS: "live"},
            {ORGANIZATIONS: "user name"},
        ),
        (
            {CHECK: CHECK_SECRET, ORGANIZATIONS: f"{CONTOSO}?x=1", ALIAS: "live"},
            {ORGANIZATIONS: "organisation"},
        ),
        (
            {CHECK: CHECK_SECRET, ORGANIZATIONS: f"{CONTOSO}#x", ALIAS: "live"},
            {ORGANIZATIONS: "organisation"},
        ),
        (
            {CHECK: CHECK_SECRET, ORGANIZATIONS: "https://x/a b", ALIAS: "live"},
            {ORGANIZATIONS: "organisation"},
        ),
    ],
)
def test_checks_that_are_set_up_by_half_are_told_at_once(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wrong: dict[str, str]
) -> None:
    found = faults(monkeypatch, **variables)
    assert found.keys() == wrong.keys()
    for name, words in wrong.items():
        assert words in found[name]
    assert not any(CHECK_SECRET[1:] in message for message in found.values())
