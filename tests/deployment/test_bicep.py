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
ACR_PULL = "7f951dda-4ed3-4680-a7ca-43fe172d538d"

FUNCTIONS = {
    "concat",
    "empty",
    "guid",
    "json",
    "resourceGroup",
    "string",
    "subscription",
    "subscriptionResourceId",
    "uniqueString",
}
WORDS = {
    *("param", "var", "resource", "module", "output", "existing", "targetScope"),
    *("string", "int", "bool", "object", "array", "true", "false", "null"),
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
    assert (call["type"], call["parameters"]["arg_2"]) == ("concat", "labelOfLiveKey")
    optional = main["variables"]["labelOfLiveKey"]["value"]["operator"]["operands"]["false_value"]
    pairs = [*call["parameters"]["arg_1"], *optional]
    names = [pair["name"] for pair in pairs]
    assert len(names) == len(set(names))
    return {pair["name"]: pair["value"] for pair in pairs}


def source(name: str) -> str:
    return (INFRA / name).read_text(encoding="utf-8")


def bare_code(text: str) -> str:
    """The text without comments and literal strings; what stands in `${...}` is kept."""

    def replacement(match: re.Match[str]) -> str:
        if match[0].startswith("//"):
            return ""
        return " ".join(["''", *re.findall(r"\$\{([^}]*)\}", match[0])])

    return re.sub(r"'(?:\\.|[^'\\])*'|//[^\n]*", replacement, text)


def declared_names(text: str) -> set[str]:
    return set(re.findall(r"^(?:param|var|resource|module) (\w+)", text, re.MULTILINE))


def undeclared_names(text: str) -> set[str]:
    """Names and functions that are used and not known. Keys, properties, decorators and outputs are not uses."""
    code = re.sub(r"^output \w+ ", "", bare_code(text), flags=re.MULTILINE)
    code = re.sub(r"^\s*[\w']+\s*:", "", code, flags=re.MULTILINE)
    used = set(re.findall(r"(?<![\w.@])[A-Za-z_]\w*", code))
    return used - declared_names(text) - FUNCTIONS - WORDS


def dotted(value: Any) -> str:
    """A property access as it is written."""
    if not isinstance(value, dict):
        return str(value)
    operands = value["operator"]["operands"]
    return f"{dotted(operands['operand_1'])}.{dotted(operands['operand_2'])}"


def role_assignments(parsed: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(file, configuration, the file's variables)"""
    for name, file in parsed.items():
        for resource in file["resources"].values():
            if resource["type"] == "Microsoft.Authorization/roleAssignments":
                yield name, resource["config"], file["variables"]


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
    code = bare_code(source(name))
    for parameter, declaration in parsed[name]["parameters"].items():
        kinds = [decorator["type"] for decorator in declaration["decorators"]]
        assert "description" in kinds, parameter
        assert len(re.findall(rf"(?<![\w.]){parameter}\b(?!\s*:)", code)) > 1, parameter


def test_every_module_exists_and_gets_its_parameters(main: Any, parsed: dict[str, Any]) -> None:
    modules = main["modules"].values()
    assert {module["detail"]["path"] for module in modules} == set(FILES) - {"main.bicep"}
    for module in modules:
        declared = parsed[module["detail"]["path"]]["parameters"]
        assert set(module["config"]["params"]) == set(declared)


def test_the_parameter_file_fits(main: Any) -> None:
    values = json.loads(source("main.parameters.json"))["parameters"]
    required = {name for name, declaration in main["parameters"].items() if declaration["default"] is None}
    assert required <= set(values) <= set(main["parameters"])
    for value in values.values():
        assert list(value) == ["value"]


def test_the_identity_has_these_rights_and_no_others(parsed: dict[str, Any]) -> None:
    given = set()
    for file, config, variables in role_assignments(parsed):
        call = config["properties"]["roleDefinitionId"]["function"]
        assert call["type"] == "subscription_resource_id"
        assert call["parameters"]["resource_type"] == "Microsoft.Authorization/roleDefinitions"
        resource = parsed[file]["resources"][config["scope"]]
        given.add((resource["type"], variables[call["parameters"]["resource_name_1"]]["value"]))
    assert given == {
        ("Microsoft.Search/searchServices", SEARCH_INDEX_DATA_READER),
        ("Microsoft.Search/searchServices", READER),
        ("Microsoft.Storage/storageAccounts/blobServices/containers", STORAGE_BLOB_DATA_CONTRIBUTOR),
        ("Microsoft.AppConfiguration/configurationStores", APP_CONFIGURATION_DATA_READER),
        ("Microsoft.ContainerRegistry/registries", ACR_PULL),
    }


def test_role_assignments_can_be_repeated_and_do_not_wait_for_replication(parsed: dict[str, Any]) -> None:
    for _, config, _ in role_assignments(parsed):
        assert config["properties"]["principalType"] == "ServicePrincipal"
        assert config["name"]["function"]["type"] == "guid"
        # a name has to be known before anything is made, so that it may not hold a made object's properties
        assert "properties" not in json.dumps(config["name"])


def test_what_is_judged_is_referred_to_and_never_made(parsed: dict[str, Any]) -> None:
    for file in parsed.values():
        for resource in file["resources"].values():
            outside = resource["type"].startswith(("Microsoft.Search/", "Microsoft.AppConfiguration/"))
            outside = outside or resource["type"].startswith("Microsoft.ContainerRegistry/")
            assert resource["existing"] is outside, resource["type"]


def test_the_storage_account_has_no_keys_and_no_public_blobs(main: Any) -> None:
    properties = main["resources"]["storage"]["config"]["properties"]
    assert properties["allowSharedKeyAccess"] is False
    assert properties["allowBlobPublicAccess"] is False
    assert properties["supportsHttpsTrafficOnly"] is True
    assert properties["minimumTlsVersion"] == "TLS1_2"
    assert main["resources"]["runs"]["config"]["properties"]["publicAccess"] == "None"


def test_logs_need_no_shared_key(main: Any) -> None:
    assert main["resources"]["logs"]["config"]["properties"]["features"]["disableLocalAuth"] is True
    assert main["resources"]["apps"]["config"]["properties"] == {
        "appLogsConfiguration": {"destination": "azure-monitor"}
    }
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
    }
    assert environment["GATE_AUTH"] == "entra"
    assert environment["GATE_HOST"] == "0.0.0.0"  # noqa: S104 within a container
    assert dotted(environment["AZURE_CLIENT_ID"]) == "identity.properties.clientId"


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
    assert set(waits) == {"runsRole", *main["modules"]}


def test_the_pipeline_gets_what_it_needs(main: Any) -> None:
    assert {"serviceUrl", "identityPrincipalId"} <= set(main["outputs"])
    assert main["outputs"]["serviceUrl"]["value"].startswith("https://${service.")


def test_every_variable_is_a_setting_that_the_service_reads(environment: dict[str, Any]) -> None:
    """A GATE_ variable that is not a setting keeps the service from starting."""
    ours = {name for name in environment if name.startswith("GATE_")}
    assert set(environment) - ours == {"AZURE_CLIENT_ID"}  # read by the Azure identity library
    assert ours <= set(settings.variables())
