"""The configuration stand-in, asked by the official client."""

import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from azure.appconfiguration import AzureAppConfigurationClient, ConfigurationSetting, ResourceReadOnlyError
from azure.core import MatchConditions
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
    ServiceResponseError,
)

from infra.local.configuration import Account
from tests.local.conftest import StandIn

KEY = "search:live-index"
ACCOUNT = Account()


def client(stand_in: StandIn, account: Account = ACCOUNT) -> AzureAppConfigurationClient:
    connection = account.connection_string(stand_in.configuration_url)
    return AzureAppConfigurationClient.from_connection_string(connection, retry_total=0)


@pytest.fixture
def store(running: StandIn) -> Iterator[AzureAppConfigurationClient]:
    """The store, empty."""
    with client(running) as opened:
        for found in opened.list_configuration_settings():
            if found.read_only:
                opened.set_read_only(found, False)
            opened.delete_configuration_setting(found.key, found.label)
        yield opened


def kept(**changes: Any) -> ConfigurationSetting:
    return ConfigurationSetting(**{"key": KEY, "label": "prod", "value": "kb-v1", **changes})


def read(
    store: AzureAppConfigurationClient, key: str = KEY, label: str | None = "prod"
) -> ConfigurationSetting:
    found = store.get_configuration_setting(key, label)
    assert found is not None
    return found


def bare(stand_in: StandIn, method: str, path: str, **headers: str) -> tuple[int, str | None]:
    """The status, and the challenge, of a request as it is."""
    address = urlsplit(stand_in.configuration_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.getheader("WWW-Authenticate")
    finally:
        connection.close()


def test_a_setting_is_kept_whole_and_read_by_key_and_label(store: AzureAppConfigurationClient) -> None:
    made = store.set_configuration_setting(
        kept(content_type="text/plain", tags={"team": "search"}, description="what is live")
    )
    found = read(store)
    assert (found.value, found.content_type, found.tags) == ("kb-v1", "text/plain", {"team": "search"})
    assert (found.label, found.read_only, found.description) == ("prod", False, "what is live")
    assert found.etag == made.etag
    assert found.last_modified is not None
    for label in ("Prod", None, "test"):
        with pytest.raises(ResourceNotFoundError):
            store.get_configuration_setting(KEY, label)
    with pytest.raises(ResourceNotFoundError):
        store.get_configuration_setting(KEY.upper(), "prod")


def test_no_label_is_a_label_of_its_own(store: AzureAppConfigurationClient) -> None:
    store.set_configuration_setting(kept())
    store.set_configuration_setting(kept(label=None, value="kb-v0"))
    assert read(store, label=None).value == "kb-v0"
    assert read(store, label="\0").value == "kb-v0"
    assert read(store, label=None).label is None

    def labels(label_filter: str | None) -> list[str | None]:
        found = store.list_configuration_settings(key_filter=KEY, label_filter=label_filter)
        return [each.label for each in found]

    assert labels("\0") == [None]
    assert labels(None) == labels("*") == [None, "prod"]
    assert labels("pro*") == ["prod"]
    assert labels("\0,prod") == [None, "prod"]
    assert labels("other") == []


@pytest.mark.parametrize(
    ("key_filter", "found"),
    [
        ("a*", ["a,b", "a*", "ab"]),
        ("a\\*", ["a*"]),
        ("a\\,b", ["a,b"]),
        ("ab,a\\*", ["a*", "ab"]),
        ("A*", []),
    ],
)
def test_filters_know_wildcards_and_escapes(
    store: AzureAppConfigurationClient, key_filter: str, found: list[str]
) -> None:
    for key in ("ab", "a*", "a,b", "b"):
        store.set_configuration_setting(kept(key=key))
    listed = store.list_configuration_settings(key_filter=key_filter)
    assert sorted(each.key for each in listed) == sorted(found)


def test_labels_are_listed(store: AzureAppConfigurationClient) -> None:
    for label in (None, "prod", "test"):
        store.set_configuration_setting(kept(label=label))
    assert [each.name for each in store.list_labels()] == [None, "prod", "test"]


def test_only_who_says_so_overwrites_by_etag(store: AzureAppConfigurationClient) -> None:
    first = store.set_configuration_setting(kept())
    second = store.set_configuration_setting(
        kept(etag=first.etag, value="kb-v2"), match_condition=MatchConditions.IfNotModified
    )
    assert second.etag != first.etag
    with pytest.raises(ResourceModifiedError):
        store.set_configuration_setting(
            kept(etag=first.etag, value="kb-v9"), match_condition=MatchConditions.IfNotModified
        )
    store.set_configuration_setting(kept(etag=first.etag, value="kb-v3"))  # an etag alone sends no condition
    assert read(store).value == "kb-v3"


def test_what_is_there_is_not_added_again(store: AzureAppConfigurationClient) -> None:
    made = store.add_configuration_setting(kept())
    with pytest.raises(ResourceExistsError):
        store.add_configuration_setting(kept(value="kb-v2"))
    unchanged = store.get_configuration_setting(
        KEY, "prod", etag=made.etag, match_condition=MatchConditions.IfModified
    )
    assert unchanged is None


def test_what_is_not_there_has_no_etag_to_match(store: AzureAppConfigurationClient) -> None:
    with pytest.raises(ResourceModifiedError):
        store.set_configuration_setting(kept(etag="gone"), match_condition=MatchConditions.IfNotModified)
    assert store.delete_configuration_setting(KEY, "prod") is None


def test_a_locked_setting_is_neither_written_nor_deleted(store: AzureAppConfigurationClient) -> None:
    made = store.set_configuration_setting(kept())
    locked = store.set_read_only(made)
    assert locked.read_only
    assert locked.etag != made.etag
    with pytest.raises(ResourceReadOnlyError, match="not allowed"):
        store.set_configuration_setting(kept(value="kb-v2"))
    with pytest.raises(ResourceReadOnlyError):
        store.delete_configuration_setting(KEY, "prod")
    store.set_read_only(locked, False)
    assert store.set_configuration_setting(kept(value="kb-v2")).value == "kb-v2"
    with pytest.raises(ResourceNotFoundError):
        store.set_read_only(kept(label="none"))


@pytest.mark.parametrize("key", ["a/b", "search:live index", "Ü%20", "a?b&c=d", "a#b", "+", "%41"])
def test_keys_of_any_letters_are_signed_and_found(store: AzureAppConfigurationClient, key: str) -> None:
    store.set_configuration_setting(kept(key=key, label="l/ä"))
    assert read(store, key, "l/ä").key == key


@pytest.mark.parametrize("account", [Account(credential="other"), Account(secret="b3RoZXI=")])
def test_who_signs_with_another_secret_is_not_let_in(running: StandIn, account: Account) -> None:
    with client(running, account) as other, pytest.raises(ClientAuthenticationError):
        other.get_configuration_setting(KEY)


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({}, "missing"),
        ({"Authorization": "Bearer token"}, "missing"),
        (
            {"Authorization": "HMAC-SHA256 Credential=local&SignedHeaders=host&Signature=AA=="},
            "must be signed",
        ),
        (
            {
                "Authorization": "HMAC-SHA256 Credential=local&SignedHeaders=x-ms-date;host;x-ms-content-sha256"
                "&Signature=AA==",
                "x-ms-date": "Sun, 30 Nov 2025 08:00:00 GMT",
            },
            "expired",
        ),
    ],
)
def test_unsigned_and_old_requests_are_refused(running: StandIn, headers: dict[str, str], why: str) -> None:
    status, challenge = bare(running, "GET", f"/kv/{KEY}?api-version=2026-04-01", **headers)
    assert status == 401
    assert why in (challenge or "")


def test_what_it_does_not_know_is_refused(store: AzureAppConfigurationClient) -> None:
    for call in (
        lambda: list(store.list_configuration_settings(tags_filter=["a=b"])),
        lambda: list(store.list_configuration_settings(key_filter="a*b")),
        lambda: store.get_configuration_setting(KEY, "prod,test"),
        lambda: store.get_configuration_setting(KEY, "*"),
        lambda: list(store.list_revisions(KEY)),
    ):
        with pytest.raises(HttpResponseError) as caught:
            call()
        assert caught.value.status_code in {400, 404}


def test_settings_are_there_after_a_restart(tmp_path: Path) -> None:
    first = StandIn(folder=tmp_path).start()
    with client(first) as store:
        made = store.set_configuration_setting(kept(label=None, tags={"a": "b"}, description="d"))
    assert first.stop() == 0
    second = StandIn(folder=tmp_path).start()
    with client(second) as store:
        found = read(store, label=None)
    assert second.stop() == 0
    assert found.serialize() == made.serialize()


def test_faults_meet_the_operation_and_key_they_name(
    running: StandIn, store: AzureAppConfigurationClient
) -> None:
    store.set_configuration_setting(kept())
    faults = StandIn(folder=running.folder, url=running.configuration_url)
    faults.arm(
        {"operation": "get", "index": KEY, "times": 1, "status": 429, "headers": {"retry-after-ms": "10"}},
        {"operation": "put", "index": "other", "status": 500},
        {"operation": "put", "times": 1, "drop": "middle"},
        {"operation": "put", "times": 1, "drop": "before"},
    )
    with pytest.raises(HttpResponseError) as caught:
        read(store)
    assert caught.value.status_code == 429
    for value in ("kb-v2", "kb-v3"):  # the first is written, the second not
        with pytest.raises(ServiceResponseError):
            store.set_configuration_setting(kept(value=value))
    assert read(store).value == "kb-v2"
    faults.call("DELETE", "/_faults")
    assert faults.counts()[KEY]["put"] >= 3
