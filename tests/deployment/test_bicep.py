"""What the Bicep files say. The parser knows no types and no symbols, so that names are checked here; whether
Azure accepts the result is for `az bicep build` and `az deployment group validate`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pycep import BicepParser

from app import settings

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
FILES = sorted(path.name for path in INFRA.glob("*.bicep"))

SEARCH_INDEX_DATA_READER = "1407120a-92aa-4202-b7e9-c0e197c71c8f"
READER = "acdd72a7-3385-48ef-bd42-f606fba81ae7"
STORAGE_BLOB_DATA_CONTRIBUTOR = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
APP_CONFIGURATION_DATA_READER = "516239f1-63e1-4d78-a4de-a74fb236a071"
APP_CONFIGURATION_DATA_OWNER = "5ae67dd6-50cb-40e7-96ff-dc2bfa4b606b"
MONITORING_METRICS_PUBLISHER = "3913510d-42f4-4e42-8a64-420c390055eb"
ACR_PULL = "7f951dda-4ed3-4680-a7ca-43fe172d538d"

FUNCTIONS = {
    "concat",
    "empty",
    "environment",
    "filter",
    "guid",
    "json",
    "newGuid",
    "resourceGroup",
    "resourceId",
    "string",
    "subscription",
    "subscriptionResourceId",
    "uniqueString",
}
WORDS = {
    *("param", "var", "resource", "module", "output", "existing", "targetScope"),
    *("string", "int", "bool", "object", "array", "true", "false", "null", "if", "for", "in"),
}


@pytest.fixture(scope="module")
def parsed() -> dict[str, Any]:
    parser = BicepParser()
    return {name: parser.parse(file_path=INFRA / name) for name in FILES}


@pytest.fixture(scope="module")
def main(parsed: dict[str, Any]) -> Any:
    return parsed["main.bicep"]


@pytest.fixture(scope="module")
def template(main: Any) -> Any:
    return main["resources"]["service"]["config"]["properties"]["template"]


@pytest.fixture(scope="module")
def environment(main: Any, template: Any) -> dict[str, Any]:
    """Name to value of the container's variables, the optional ones too."""
    (container,) = template["containers"]
    call = container["env"]["function"]
    optional = main["variables"]["optionalSettings"]["value"]["function"]
    assert (call["type"], optional["type"]) == ("concat", "filter")
    always, *if_any, rest = call["parameters"].values()
    assert rest == "optionalSettings"
    pairs = [*always, *chosen(if_any), *optional["parameters"]["input_array"]]
    names = [pair["name"] for pair in pairs]
    assert len(names) == len(set(names))
    return {pair["name"]: pair.get("value", pair.get("secretRef")) for pair in pairs}


def chosen(conditions: list[Any]) -> Iterator[Any]:
    """What stands in lists of the kind `has ? [...] : []`."""
    for each in conditions:
        operands = each["operator"]["operands"]
        assert operands["false_value"] == []
        yield from operands["true_value"]


def configured(node: Any) -> Any:
    """What is declared, of one or of many, with a condition or without."""
    return node["config"].get("config", node["config"])


def source(name: str) -> str:
    return (INFRA / name).read_text(encoding="utf-8")


def bare_code(text: str) -> str:
    """The text without comments and literal strings; what stands in `${...}` is kept, with strings of its own."""

    def replacement(match: re.Match[str]) -> str:
        if match[0].startswith("//"):
            return ""
        return " ".join(["''", *map(bare_code, re.findall(r"\$\{((?:'[^']*'|[^}])*)\}", match[0]))])

    return re.sub(r"'(?:\\.|\$\{(?:'[^']*'|[^}])*\}|[^'\\])*'|//[^\n]*", replacement, text)


def without_keys(code: str) -> str:
    return re.sub(r"^\s*[\w']+\s*:", "", code, flags=re.MULTILINE)


def declared_names(text: str) -> set[str]:
    names = re.findall(r"^(?:param|var|resource|module) (\w+)", text, re.MULTILINE)
    within = re.findall(r"\bfor \(?(\w+)(?:, (\w+)\))? in\b|(\w+) =>", text)
    return {*names, *(name for each in within for name in each if name)}


def undeclared_names(text: str) -> set[str]:
    """Names and functions that are used and not known. Keys, properties, decorators and outputs are not uses."""
    code = re.sub(r"^output \w+ ", "", bare_code(text), flags=re.MULTILINE)
    code = without_keys(code)
    used = set(re.findall(r"(?<![\w.@])[A-Za-z_]\w*", code))
    return used - declared_names(text) - FUNCTIONS - WORDS


def dotted(value: Any) -> str:
    """A property access as it is written."""
    if not isinstance(value, dict):
        return str(value)
    operands = value["operator"]["operands"]
    return f"{dotted(operands['operand_1'])}.{dotted(operands['operand_2'])}"


def role_assignments(parsed: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(file, configuration, condition)"""
    for name, file in parsed.items():
        for resource in file["resources"].values():
            if resource["type"] == "Microsoft.Authorization/roleAssignments":
                yield name, configured(resource), resource["config"].get("condition")


def written(condition: Any) -> str:
    """A condition as it is written; "" for none."""
    if isinstance(condition, dict):
        return f"!{condition['operator']['operands']['bool_value']}"
    return condition or ""


def role(file: Any, reference: Any) -> Any:
    """The role of an assignment: the id of a built-in one, or the actions of one that is made; both by condition."""
    if "operator" in reference:  # name.id
        made = file["resources"][dotted(reference).removesuffix(".id")]
        (permission,) = configured(made)["properties"]["permissions"]
        assert set(permission) == {"actions", "notActions"}
        return tuple(permission["actions"])
    call = reference["function"]
    assert call["type"] == "subscription_resource_id"
    assert call["parameters"]["resource_type"] == "Microsoft.Authorization/roleDefinitions"
    value = file["variables"][call["parameters"]["resource_name_1"]]["value"]
    if isinstance(value, dict):
        either = value["operator"]["operands"]
        ids = {each: file["variables"][either[each]]["value"] for each in ("true_value", "false_value")}
        return either["condition"], ids["true_value"], ids["false_value"]
    return value


@pytest.mark.parametrize("name", FILES)
def test_every_name_is_declared(name: str) -> None:
    assert undeclared_names(source(name)) == set()


@pytest.mark.parametrize(
    ("line", "right", "wrong"),
    [
        ("environmentId: apps.id", "apps", "appz"),
        ("'${storage.properties.primaryEndpoints.blob}${runsContainer}'", "storage", "storrage"),
        ("uniqueString(resourceGroup().id, name)", "uniqueString", "uniqueStrings"),
    ],
)
def test_a_misspelt_name_is_found(line: str, right: str, wrong: str) -> None:
    text = source("main.bicep")
    assert line in text
    assert undeclared_names(text.replace(line, line.replace(right, wrong, 1))) == {wrong}


@pytest.mark.parametrize("name", FILES)
def test_every_parameter_is_described_and_used(name: str, parsed: dict[str, Any]) -> None:
    code = without_keys(bare_code(source(name)))
    for parameter, declaration in parsed[name]["parameters"].items():
        kinds = [decorator["type"] for decorator in declaration["decorators"]]
        assert "description" in kinds, parameter
        assert len(re.findall(rf"(?<![\w.]){parameter}\b", code)) > 1, parameter


def test_every_module_exists_and_gets_its_parameters(main: Any, parsed: dict[str, Any]) -> None:
    modules = main["modules"].values()
    assert {module["detail"]["path"] for module in modules} == set(FILES) - {"main.bicep"}
    for module in modules:
        declared = parsed[module["detail"]["path"]]["parameters"]
        assert set(configured(module)["params"]) == set(declared)


def test_the_parameter_file_fits(main: Any) -> None:
    values = json.loads(source("main.parameters.json"))["parameters"]
    required = {name for name, declaration in main["parameters"].items() if declaration["default"] is None}
    assert required <= set(values) <= set(main["parameters"])
    for value in values.values():
        assert list(value) == ["value"]


def test_the_identity_has_these_rights_and_no_others(parsed: dict[str, Any]) -> None:
    given = {
        (parsed[file]["resources"][config["scope"]]["type"], written(condition)): role(
            parsed[file], config["properties"]["roleDefinitionId"]
        )
        for file, config, condition in role_assignments(parsed)
    }
    search, store = "Microsoft.Search/searchServices", "Microsoft.AppConfiguration/configurationStores"
    assert given == {
        (search, ""): SEARCH_INDEX_DATA_READER,
        (search, "!customRoles"): READER,
        (search, "customRoles"): (f"{search}/indexes/read", f"{search}/aliases/read"),
        (search, "writesAliases"): (f"{search}/aliases/read", f"{search}/aliases/write"),
        (store, ""): ("writes", APP_CONFIGURATION_DATA_OWNER, APP_CONFIGURATION_DATA_READER),
        ("Microsoft.Storage/storageAccounts/blobServices/containers", ""): STORAGE_BLOB_DATA_CONTRIBUTOR,
        ("Microsoft.Insights/components", ""): MONITORING_METRICS_PUBLISHER,
        ("Microsoft.ContainerRegistry/registries", ""): ACR_PULL,
    }


def test_something_may_be_changed_only_where_the_service_itself_promotes(main: Any) -> None:
    assert main["parameters"]["promotes"]["default"] is False
    assert configured(main["modules"]["appConfiguration"])["params"]["writes"] == "promotes"
    assert "writesAliases: promotes && !hasStore" in source("main.bicep")


def test_a_role_that_is_made_can_be_given_on_its_group_only(parsed: dict[str, Any]) -> None:
    made = [
        configured(resource)
        for file in parsed.values()
        for resource in file["resources"].values()
        if resource["type"] == "Microsoft.Authorization/roleDefinitions"
    ]
    assert len(made) == 2
    for config in made:
        (scope,) = config["properties"]["assignableScopes"]
        assert scope["operator"]["operands"]["operand_1"]["function"]["type"] == "resource_group"


def test_role_assignments_can_be_repeated_and_do_not_wait_for_replication(parsed: dict[str, Any]) -> None:
    for _, config, _ in role_assignments(parsed):
        assert config["properties"]["principalType"] == "ServicePrincipal"
        assert config["name"]["function"]["type"] == "guid"
        # a name has to be known before anything is made, so that it may not hold a made object's properties
        assert "properties" not in json.dumps(config["name"])


def test_the_search_service_and_the_registry_are_referred_to_and_never_made(parsed: dict[str, Any]) -> None:
    for file in parsed.values():
        for resource in file["resources"].values():
            outside = resource["type"].startswith(("Microsoft.Search/", "Microsoft.ContainerRegistry/"))
            assert resource["existing"] is outside, resource["type"]


def test_the_store_has_no_keys_and_what_it_held_can_be_had_again(parsed: dict[str, Any]) -> None:
    properties = parsed["app-configuration.bicep"]["resources"]["store"]["config"]["properties"]
    assert properties["disableLocalAuth"] is True
    assert properties["enablePurgeProtection"] is True


def test_old_runs_go_and_what_people_decided_stays(main: Any) -> None:
    blobs = main["resources"]["blobs"]["config"]["properties"]
    assert blobs["isVersioningEnabled"] is True
    assert blobs["deleteRetentionPolicy"]["enabled"] is True
    rules = main["resources"]["oldRuns"]["config"]["properties"]["policy"]["rules"]
    runs, versions = (rule["definition"] for rule in rules)
    assert runs["filters"]["prefixMatch"] == [
        f"${{runsContainer}}/{folder}/" for folder in ("runs", "status", "keys")
    ]
    assert runs["actions"] == {
        "baseBlob": {"delete": {"daysAfterModificationGreaterThan": "runRetentionDays"}}
    }
    assert versions["actions"] == {
        "version": {"delete": {"daysAfterCreationGreaterThan": "deletedRunRetentionDays"}}
    }


@pytest.mark.parametrize(
    ("file", "resource"), [("main.bicep", "storage"), ("app-configuration.bicep", "store")]
)
def test_with_private_endpoints_nothing_is_reached_publicly(
    file: str, resource: str, parsed: dict[str, Any]
) -> None:
    access = configured(parsed[file]["resources"][resource])["properties"]["publicNetworkAccess"]["operator"]
    assert access == {
        "type": "conditional",
        "operands": {"condition": "isPrivate", "true_value": "Disabled", "false_value": "Enabled"},
    }


def test_every_private_endpoint_has_its_group_and_its_zone() -> None:
    found = re.findall(r"kind: '(\w+)'\s+id: [^\n]+\s+zone: '([^']+)'", source("main.bicep"))
    assert dict(found) == {
        "blob": "privatelink.blob.${environment().suffixes.storage}",
        "searchService": "privatelink.search.windows.net",
        "configurationStores": "privatelink.azconfig.io",
    }


def test_the_storage_account_has_no_keys_and_no_public_blobs(main: Any) -> None:
    properties = main["resources"]["storage"]["config"]["properties"]
    assert properties["allowSharedKeyAccess"] is False
    assert properties["allowBlobPublicAccess"] is False
    assert properties["supportsHttpsTrafficOnly"] is True
    assert properties["minimumTlsVersion"] == "TLS1_2"
    assert main["resources"]["runs"]["config"]["properties"]["publicAccess"] == "None"


def test_logs_need_no_shared_key(main: Any) -> None:
    assert main["resources"]["logs"]["config"]["properties"]["features"]["disableLocalAuth"] is True
    apps = main["resources"]["apps"]["config"]["properties"]
    assert apps["appLogsConfiguration"] == {"destination": "azure-monitor"}
    assert main["resources"]["insights"]["config"]["properties"]["DisableLocalAuth"] is True
    assert main["resources"]["appsLogs"]["config"]["scope"] == "apps"
    assert "listKeys" not in source("main.bicep")


def test_one_revision_and_one_replica_that_is_never_scaled_away(main: Any, template: Any) -> None:
    configuration = main["resources"]["service"]["config"]["properties"]["configuration"]
    assert configuration["activeRevisionsMode"] == "Single"
    assert template["scale"] == {"minReplicas": 1, "maxReplicas": 1}
    assert template["terminationGracePeriodSeconds"] == 60


def test_the_service_is_reached_over_tls_only(main: Any) -> None:
    ingress = main["resources"]["service"]["config"]["properties"]["configuration"]["ingress"]
    assert ingress["allowInsecure"] is False
    assert ingress["targetPort"] == "port"


def test_three_probes_ask_the_port_that_the_service_listens_on(main: Any, template: Any) -> None:
    (container,) = template["containers"]
    paths = {probe["type"]: probe["httpGet"]["path"] for probe in container["probes"]}
    assert paths == {"Startup": "/healthz", "Liveness": "/healthz", "Readiness": "/readyz"}
    for probe in container["probes"]:
        assert probe["httpGet"]["port"] == "port"
        assert 1 <= probe["failureThreshold"] <= 10
        assert 1 <= probe["timeoutSeconds"] <= probe["periodSeconds"]
    assert main["variables"]["port"]["value"] == 8080


def test_the_settings_keep_the_service_closed_and_without_keys(environment: dict[str, Any]) -> None:
    assert set(environment) == {
        "AZURE_CLIENT_ID",
        "GATE_HOST",
        "GATE_PORT",
        "GATE_AUTH",
        "GATE_ENTRA_TENANT_ID",
        "GATE_ENTRA_AUDIENCE",
        "GATE_RUNS_URL",
        "GATE_SEARCH_ENDPOINT",
        "GATE_APPCONFIG_ENDPOINT",
        "GATE_LIVE_KEY",
        "GATE_LIVE_LABEL",
        "GATE_LIVE_ALIAS",
        "GATE_REQUIRED_SETS",
        "GATE_PUBLIC_URL",
        "GATE_SESSION_KEYS",
        "GATE_ENTRA_CLIENT_SECRET",
        "GATE_CHECK_SECRET",
        "GATE_CHECK_ORGANIZATIONS",
        "APPLICATIONINSIGHTS_CONNECTION_STRING",
    }
    assert environment["GATE_AUTH"] == "entra"
    assert environment["GATE_HOST"] == "0.0.0.0"  # noqa: S104 within a container
    assert dotted(environment["AZURE_CLIENT_ID"]) == "identity.properties.clientId"


def test_what_is_secret_is_a_parameter_that_nobody_is_shown_and_a_secret_of_the_app(
    main: Any, environment: dict[str, Any]
) -> None:
    secrets = main["resources"]["service"]["config"]["properties"]["configuration"]["secrets"]
    always, *if_any = secrets["function"]["parameters"].values()
    pairs = [*always, *chosen(if_any)]
    assert {pair["name"]: pair["value"] for pair in pairs} == {
        environment["GATE_SESSION_KEYS"]: "sessionKeys",
        environment["GATE_ENTRA_CLIENT_SECRET"]: "entraClientSecret",
        environment["GATE_CHECK_SECRET"]: "checkSecret",
    }
    for pair in pairs:
        kinds = [each["type"] for each in main["parameters"][pair["value"]]["decorators"]]
        assert "secure" in kinds


def test_the_service_knows_one_place_of_what_is_live(main: Any, environment: dict[str, Any]) -> None:
    """Settings of both places would keep it from starting; what is empty is left out."""
    sides = {
        name: [
            environment[name]["operator"]["operands"][side] == "" for side in ("true_value", "false_value")
        ]
        for name in ("GATE_APPCONFIG_ENDPOINT", "GATE_LIVE_KEY", "GATE_LIVE_LABEL", "GATE_LIVE_ALIAS")
    }
    assert sides.pop("GATE_LIVE_ALIAS") == [True, False]
    assert list(sides.values()) == [[False, True]] * 3
    assert "setting => !empty(setting.value)" in source("main.bicep")
    assert main["variables"]["hasStore"]["value"]["operator"]["type"] == "not"


def test_runs_are_kept_in_the_container_that_the_identity_may_write(
    main: Any, environment: dict[str, Any]
) -> None:
    assert environment["GATE_RUNS_URL"] == "runsUrl"
    url = main["variables"]["runsUrl"]["value"]
    assert url == "${storage.properties.primaryEndpoints.blob}${runsContainer}"
    assert main["resources"]["runs"]["config"]["name"] == "runsContainer"
    assert re.fullmatch(r"[a-z0-9](-?[a-z0-9]){2,62}", main["variables"]["runsContainer"]["value"])


def test_the_service_waits_for_its_rights(main: Any) -> None:
    waits = main["resources"]["service"]["config"]["dependsOn"]
    assert set(waits) == {"runsRole", "insightsRole", *main["modules"]}


def test_the_pipeline_gets_what_it_needs(main: Any) -> None:
    script = (INFRA / "pipelines" / "deploy.sh").read_text(encoding="utf-8")
    read = re.findall(r"properties\.outputs\.(\w+)\.value", script)
    assert sorted(read) == ["serviceId", "serviceUrl"]
    assert {*read, "identityPrincipalId"} <= set(main["outputs"])
    assert main["outputs"]["serviceUrl"]["value"].startswith("https://${service.")


def test_every_variable_is_a_setting_that_the_service_reads(environment: dict[str, Any]) -> None:
    """A GATE_ variable that is not a setting keeps the service from starting."""
    ours = {name for name in environment if name.startswith("GATE_")}
    # read by Azure's libraries for identity and for telemetry
    assert set(environment) - ours == {"AZURE_CLIENT_ID", "APPLICATIONINSIGHTS_CONNECTION_STRING"}
    assert ours <= set(settings.variables())


@pytest.mark.parametrize("has_store", [True, False], ids=["a store", "an alias"])
def test_the_service_starts_with_what_is_set(
    has_store: bool, environment: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each variable with a value of its kind."""
    guid = "00000000-0000-0000-0000-000000000000"
    place = {
        "GATE_APPCONFIG_ENDPOINT": "https://contoso-configuration.azconfig.io",
        "GATE_LIVE_KEY": "search:live-index",
        "GATE_LIVE_LABEL": "production",
    }
    given = {
        "AZURE_CLIENT_ID": guid,
        "APPLICATIONINSIGHTS_CONNECTION_STRING": f"InstrumentationKey={guid}",
        "GATE_HOST": environment["GATE_HOST"],
        "GATE_PORT": "8080",
        "GATE_AUTH": environment["GATE_AUTH"],
        "GATE_ENTRA_TENANT_ID": guid,
        "GATE_ENTRA_AUDIENCE": guid,
        "GATE_ENTRA_CLIENT_SECRET": "secret",
        "GATE_CHECK_SECRET": guid,
        "GATE_CHECK_ORGANIZATIONS": "https://dev.azure.com/contoso",
        "GATE_PUBLIC_URL": "https://search-index-gate.contoso.example",
        "GATE_SESSION_KEYS": guid + guid,
        "GATE_RUNS_URL": "https://gate1234567890abc.blob.core.windows.net/runs",
        "GATE_SEARCH_ENDPOINT": "https://contoso-search.search.windows.net",
        "GATE_REQUIRED_SETS": "handbook",
        **(place if has_store else {"GATE_LIVE_ALIAS": "kb"}),
    }
    assert {*given, *place, "GATE_LIVE_ALIAS"} == set(environment)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert settings.serving_faults(settings.read_settings(), given) == []
