"""A check of Azure DevOps through the real service: an organisation on loopback, an alias that says what is live."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.azure_devops import SECRET, TOKEN, Organization
from tests.e2e.programs import PLAIN, Gate, Served, questions

TOML = f'[query]\nmode = "keyword"\nsemantic = false\n[policy]\n{PLAIN}'


@pytest.fixture
def served(gate: Gate, organization: Organization) -> Iterator[Served]:
    gate.golden("hr", questions("q1", "q2"), TOML)
    gate.search.alias("live", "kb-v1")
    with gate.serving(
        GATE_GOLDEN_DIR=str(gate.folder),
        GATE_LIVE_ALIAS="live",
        GATE_CHECK_SECRET=SECRET,
        GATE_CHECK_ORGANIZATIONS=f"https://dev.azure.com/fabrikam,{organization.url}",
        GATE_LOG_LEVEL="debug",
    ) as service:
        yield service


def test_a_stage_may_go_on_only_while_what_its_build_had_judged_is_cleared(
    gate: Gate, served: Served, organization: Organization
) -> None:
    ended = gate.run("--golden", "hr", "--build-id", "417", "--service", served.url)
    assert ended.status == 0, ended.said
    organization.faults = [503]
    for expected in (["succeeded"] * 2, ["succeeded"] * 2 + ["failed"]):
        response = served.client.post(
            "/v1/checks/azure-devops", json={"build_id": "417"}, headers=organization.check()
        )
        assert response.status_code == 200, response.text
        organization.wait_for(len(expected))
        assert organization.results == expected
        gate.search.alias("live", "kb-v2")
    assert "the check of build '417' failed" in served.process.err
    assert len(gate.kept) == 1
    for secret in (TOKEN, SECRET):
        assert secret not in served.process.err
        assert not any(secret.encode() in path.read_bytes() for path in files(gate.runs))


def files(folder: Path) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    assert found
    return found
