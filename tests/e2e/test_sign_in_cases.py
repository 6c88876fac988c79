"""S12, and the command line's own sign-in, through the real service: a tenant on loopback, runs in Azurite."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.azurite import KEY
from tests.directory import CLIENT, Directory
from tests.e2e.programs import Gate, Served, lines, questions

OTHER = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def served(gate: Gate, directory: Directory, azurite_url: str) -> Iterator[Served]:
    gate.environment |= {
        **directory.settings,
        "GATE_RUNS_URL": f"{azurite_url}/runs-{uuid.uuid4().hex[:12]}",
        "GATE_RUNS_KEY": KEY,
    }
    gate.golden("hr", questions("q1", "q2"), toml='[query]\nmode = "keyword"\nsemantic = false\n')
    with gate.serving(GATE_GOLDEN_DIR=str(gate.folder)) as found:
        yield found


BODY = {"candidate_index": "kb-v2", "baseline_index": "kb-v1", "golden_set": "hr"}

CASES: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    # what its claims are, and the status of: starting a run, promoting one, reading it
    "1 no roles": ({"roles": None}, (403, 403, 403)),
    "2 Gate.Read": ({"roles": ["Gate.Read"]}, (403, 403, 200)),
    "3 Gate.Run": ({"roles": ["Gate.Run"]}, (202, 403, 200)),
    "4 audience is the client id": ({"roles": ["Gate.Run"], "aud": CLIENT}, (202, 403, 200)),
    "5 audience is api://": ({"roles": ["Gate.Run"], "aud": f"api://{CLIENT}"}, (202, 403, 200)),
    "5 audience of another": ({"roles": ["Gate.Run"], "aud": f"api://{OTHER}"}, (401, 401, 401)),
    "6 other tenant": ({"roles": ["Gate.Run"], "tid": OTHER}, (401, 401, 401)),
    "7 scp only": ({"roles": None, "scp": "Gate.Run Gate.Read"}, (403, 403, 403)),
    "8 a string": ({"roles": "Gate.Run.Denied"}, (403, 403, 403)),
}


def test_s12_valid_tokens_without_the_role(served: Served, directory: Directory) -> None:
    client = served.client
    started = client.post("/v1/runs", json=BODY, headers=_bearer(directory.token("Gate.Run")))
    assert started.status_code == 202, started.text
    address = started.headers["location"]
    for case, (claims, expected) in CASES.items():
        headers = _bearer(directory.token(**claims))
        responses = (
            client.post("/v1/runs", json=BODY, headers=headers),
            client.post(f"{address}/promote", json={}, headers=headers),
            client.get(address, headers=headers),
        )
        assert tuple(each.status_code for each in responses) == expected, case
        for response, role in zip(responses, ("Gate.Run", "Gate.Promote", "Gate.Read"), strict=True):
            if response.status_code == 403:
                assert role in response.json()["detail"], case
            if response.status_code == 401:
                assert response.headers["www-authenticate"].startswith("Bearer "), case
    promoter = client.post(f"{address}/promote", json={}, headers=_bearer(directory.token("Gate.Promote")))
    assert promoter.status_code not in (401, 403, 500)
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    assert "eyJ" not in served.process.err


def test_the_command_line_signs_in_and_tells_what_is_missing(
    gate: Gate, served: Served, directory: Directory
) -> None:
    golden = gate.golden("sent", lines(questions("q1")), toml='[query]\nmode = "keyword"\nsemantic = false\n')
    run = ("--golden", golden, "--service", served.url)
    good = gate.run(*run, "--out", "out", GATE_SERVICE_TOKEN=directory.token("Gate.Run"))
    assert good.status == 0, good.said
    assert "[9a7d3d0e" in gate.read("out")["requested_by"]
    gate.run(*run, GATE_SERVICE_TOKEN=directory.token("Gate.Read")).refused(
        "answered 403", "the role Gate.Run"
    )
    gate.run(*run, GATE_SERVICE_TOKEN=directory.token("Gate.Run", exp=1)).refused(
        "answered 401", "has expired"
    )
    gate.run(*run).refused("answered 401", "GATE_SERVICE_SCOPE")


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
