"""What the pipeline and the template for other pipelines say. The editor's language service knows the tasks and their
inputs; it does not follow stages, outputs, parameters and expressions, which is done here. Nothing of this asks
Azure DevOps.
"""

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app import settings

ROOT = Path(__file__).parents[2]
FILES = ("azure-pipelines.yml", "infra/pipelines/gate.yml")
PIPELINE, TEMPLATE = ((ROOT / name).read_text(encoding="utf-8") for name in FILES)
README = (ROOT / "README.md").read_text(encoding="utf-8")
CHECK_JSONSCHEMA = Path(sysconfig.get_path("purelib")) / "check_jsonschema"  # it carries the editor's schema
SCHEMA = CHECK_JSONSCHEMA / "builtin_schemas" / "vendor" / "azure-pipelines.json"
VALIDATOR = Path(__file__).with_name("validate_pipeline.mjs")
PREDEFINED = ("Agent.", "Build.", "Pipeline.", "System.")
SCRIPTS = ("gate.sh", "cancel.sh", "promote.sh", "golden.sh", "image.sh", "deploy.sh")


def strings(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for value in node.values():
            yield from strings(value)
    elif isinstance(node, list):
        for value in node:
            yield from strings(value)
    elif isinstance(node, str):
        yield node


def steps_of(job: Any) -> list[Any]:
    if "deployment" in job:
        return list(job["strategy"]["runOnce"]["deploy"]["steps"])
    return list(job["steps"])


def jobs(pipeline: Any) -> Iterator[tuple[Any, Any]]:
    for stage in pipeline["stages"]:
        for job in stage["jobs"]:
            yield stage, job


def all_steps(pipeline: Any) -> Iterator[Any]:
    for _, job in jobs(pipeline):
        yield from steps_of(job)


def depends_on(node: Any) -> list[str]:
    names = node.get("dependsOn", [])
    return [names] if isinstance(names, str) else list(names)


def step_text(step: Any) -> str:
    """The shell text that a step runs, inline or from a file of the repository."""
    path = step.get("inputs", {}).get("scriptPath")
    return str(step.get("bash", "")) if path is None else (ROOT / path).read_text(encoding="utf-8")


def sets_output(steps: list[Any], path: str) -> bool:
    step_name, _, variable = path.partition(".")
    named = [step for step in steps if step.get("name") == step_name]
    return len(named) == 1 and f"task.setvariable variable={variable};isOutput=true" in step_text(named[0])


def graph_faults(pipeline: Any) -> list[str]:
    """Stages and jobs are unique, and depend on earlier ones of their kind; a template's first stages on those that
    it is told to follow.
    """
    faults = []
    for kind, groups in (("stage", [pipeline["stages"]]), ("job", [s["jobs"] for s in pipeline["stages"]])):
        for group in groups:
            seen: set[str] = set()
            for node in group:
                name = node.get(kind) or node.get("deployment")
                faults += [
                    f"{kind} {name}: no {need} before it"
                    for need in depends_on(node)
                    if need not in seen and need != "${{ parameters.dependsOn }}"
                ]
                faults += [f"{kind} {name} twice"] if name in seen else []
                seen.add(name)
    return faults


def output_faults(pipeline: Any) -> list[str]:
    """Every output that is read is set by a named step, in a stage that is waited for."""
    known = {(stage["stage"], job.get("job")): steps_of(job) for stage, job in jobs(pipeline)}
    faults = []
    for stage in pipeline["stages"]:
        text = "\n".join(strings(stage))
        reads = [
            (match["stage"], *match["path"].partition(".")[::2])
            for match in re.finditer(
                r"(?<!\w)dependencies\.(?P<stage>\w+)\.outputs\['(?P<path>[^']*)'\]", text
            )
        ]
        reads += [
            (match["stage"], match["job"], match["path"])
            for match in re.finditer(
                r"stageDependencies\.(?P<stage>\w+)\.(?P<job>\w+)\.outputs\['(?P<path>[^']*)'\]", text
            )
        ]
        if len(reads) != len(re.findall(r"(?i)dependencies\.", text)):
            faults.append(f"{stage['stage']}: an output path of a form that is not known here")
        for source, job, path in reads:
            if source not in depends_on(stage):
                faults.append(f"{stage['stage']} reads an output of {source} without waiting for it")
            if not sets_output(known.get((source, job), []), path):
                faults.append(f"no step of {source}.{job} sets {path}")
    return faults


def name_faults(pipeline: Any) -> list[str]:
    """Parameters, variables and outputs that are read exist; parameters and variables that exist are read."""
    parameters = {parameter["name"] for parameter in pipeline.get("parameters", [])}
    variables = {variable["name"] for variable in pipeline.get("variables", [])}
    text = "\n".join(strings(pipeline))
    read = set(re.findall(r"\$\{\{ parameters\.(\w+) \}\}", text))
    faults = [f"parameter {name}: declared or read, not both" for name in read ^ parameters]
    read = set(re.findall(r"\$\{\{ variables\.(\w+) \}\}", text))
    for _, job in jobs(pipeline):
        own = set(job.get("variables", {}))
        for macro in re.findall(r"\$\(([\w.]+)\)", "\n".join(strings(job))):
            if macro.startswith(PREDEFINED) or macro in own:
                continue
            if "." not in macro:
                read.add(macro)
            elif not sets_output(steps_of(job), macro):
                faults.append(f"no step sets {macro}")
    faults += [f"variable {name}: declared or read, not both" for name in read ^ variables]
    if "${{" in re.sub(r"\$\{\{ (parameters|variables)\.\w+ \}\}", "", text):
        faults.append("a template expression that is not known here")
    return faults


def expression_faults(pipeline: Any) -> list[str]:
    """Parentheses, brackets and quotes of every condition and run-time expression balance."""
    expressions = re.findall(r"\$\[(.*)\]", "\n".join(strings(pipeline)))
    nodes = [*pipeline["stages"], *(job for _, job in jobs(pipeline)), *all_steps(pipeline)]
    expressions += [node["condition"] for node in nodes if "condition" in node]
    return [f"unbalanced: {text}" for text in expressions if not balanced(text)]


def balanced(text: str) -> bool:
    bare = re.sub(r"'[^']*'", "", text)
    shorter = re.sub(r"\([^()\[\]]*\)|\[[^()\[\]]*\]", "", bare)
    while shorter != bare:
        bare, shorter = shorter, re.sub(r"\([^()\[\]]*\)|\[[^()\[\]]*\]", "", shorter)
    return not re.search(r"[()\[\]']|,\s*(,|$)", bare) and not re.search(r"\(\s*,|,\s*[,)]", text)


def script_faults(pipeline: Any) -> list[str]:
    """Nothing is pasted into a script's text, and every script is there to be run."""
    faults = []
    for step in all_steps(pipeline):
        inputs = step.get("inputs", {})
        body = str(step.get("bash", step.get("script", ""))) + str(inputs.get("inlineScript", ""))
        if "${{" in body or "$(" in body or "$[" in body:
            faults.append(f"pasted into a script: {body}")
        paths = re.findall(r"\S+\.sh\b", f"{body} {inputs.get('scriptPath', '')}")
        faults += [f"not an executable file: {path}" for path in paths if not os.access(ROOT / path, os.X_OK)]
    return faults


def publishing_faults(pipeline: Any) -> list[str]:
    """Reports are kept after a failure too, and no step's failure is passed over."""
    faults = []
    for step in all_steps(pipeline):
        if str(step.get("task", "")).startswith("Publish") and step.get("condition") != "succeededOrFailed()":
            faults.append(f"{step['task']} does not run after a failure")
        if step.get("continueOnError"):
            faults.append(f"goes on after an error: {step}")
    return faults


def faults_of(text: str) -> list[str]:
    pipeline = yaml.safe_load(text)
    checks = (graph_faults, output_faults, name_faults, expression_faults, script_faults, publishing_faults)
    return [fault for check in checks for fault in check(pipeline)]


@pytest.fixture(scope="module")
def pipeline() -> Any:
    return yaml.safe_load(PIPELINE)


@pytest.fixture(scope="module")
def template() -> Any:
    return yaml.safe_load(TEMPLATE)


@pytest.fixture(scope="module")
def by_script(pipeline: Any, template: Any) -> dict[str, Any]:
    steps = [*all_steps(pipeline), *all_steps(template)]
    scripts = [step for step in steps if "scriptPath" in step.get("inputs", {})]
    return {Path(step["inputs"]["scriptPath"]).name: step for step in scripts}


def stage_of(pipeline: Any, name: str) -> Any:
    (stage,) = [stage for stage in pipeline["stages"] if stage["stage"] == name]
    return stage


@pytest.mark.parametrize("text", [PIPELINE, TEMPLATE], ids=FILES)
def test_the_pipeline_hangs_together(text: str) -> None:
    assert faults_of(text) == []


@pytest.mark.parametrize(
    ("text", "right", "wrong", "fault"),
    [
        (PIPELINE, "dependsOn: Build", "dependsOn: Bild", "stage Image: no Bild before it"),
        (PIPELINE, "['image.image']", "['image.digest']", "no step of Image.image sets image.digest"),
        (PIPELINE, "$(registry)", "$(registri)", "variable registri: declared or read, not both"),
        (PIPELINE, "bash: make lint", "bash: make lint $(registry)", "pasted into a script"),
        (PIPELINE, "pipelines/image.sh", "pipelines/agent.sh", "not an executable file"),
        (TEMPLATE, "dependsOn: Gate", "dependsOn: Gates", "stage Promote: no Gates before it"),
        (TEMPLATE, "['gate.gate.verdict']", "['gate.verdict']", "no step of Gate.gate sets verdict"),
        (TEMPLATE, "['gate.gate.verdict']", "['gate.gate.result']", "no step of Gate.gate sets gate.result"),
        (TEMPLATE, "['gate.runs']", "['gate.run']", "no step of Gate.gate sets gate.run"),
        (TEMPLATE, "stageDependencies.Gate.gate", "stageDependencies.Index.gate", "reads an output of Index"),
        (TEMPLATE, "$(reports.artifact)", "$(report.artifact)", "no step sets report.artifact"),
        (TEMPLATE, "- name: goldenSets", "- name: goldenSet", "parameter goldenSets: declared or read"),
        (TEMPLATE, "$(candidateIndex)", "$(candidate)", "variable candidate: declared or read, not both"),
        (TEMPLATE, "and(succeeded(), eq(", "and(succeeded(, eq(", "unbalanced"),
        (TEMPLATE, "succeededOrFailed()", "succeeded()", "does not run after a failure"),
        (
            TEMPLATE,
            "install.sh .venv",
            "install.sh ${{ parameters.goldenSets }}",
            "pasted into a script",
        ),
        (
            TEMPLATE,
            "visibleAzLogin: false",
            "visibleAzLogin: false\n      continueOnError: true",
            "goes on after an error",
        ),
    ],
)
def test_a_broken_copy_is_refused(text: str, right: str, wrong: str, fault: str) -> None:
    assert right in text
    assert [found for found in faults_of(text.replace(right, wrong, 1)) if fault in found]


def test_only_a_measured_pass_leads_to_promotion(template: Any) -> None:
    promote = stage_of(template, "Promote")
    assert (
        promote["condition"] == "and(succeeded(), eq(dependencies.Gate.outputs['gate.gate.verdict'], 'PASS'))"
    )
    (job,) = promote["jobs"]
    assert job["environment"] == "${{ parameters.promoteEnvironment }}"


def test_only_what_was_tested_on_main_is_deployed(pipeline: Any) -> None:
    image, deploy = stage_of(pipeline, "Image"), stage_of(pipeline, "Deploy")
    assert image["dependsOn"] == "Build"
    assert image["condition"] == "and(succeeded(), eq(variables['Build.SourceBranch'], 'refs/heads/main'))"
    assert deploy["dependsOn"] == "Image"
    assert "condition" not in deploy, "succeeded(), and a stage that was skipped did not"
    assert deploy["jobs"][0]["environment"] == "${{ variables.deployEnvironment }}"


def test_a_pull_request_has_its_golden_sets_checked(pipeline: Any, by_script: dict[str, Any]) -> None:
    golden = stage_of(pipeline, "Golden")
    assert golden["condition"] == "eq(variables['Build.Reason'], 'PullRequest')"
    (job,) = golden["jobs"]
    assert job["steps"][0] == {"checkout": "self", "fetchDepth": 2}
    assert by_script["golden.sh"] in job["steps"]


def test_each_script_signs_in_as_an_identity_of_its_own_kind(by_script: dict[str, Any]) -> None:
    connections = {name: step["inputs"]["azureSubscription"] for name, step in by_script.items()}
    assert connections == {
        "gate.sh": "${{ parameters.gateConnection }}",
        "cancel.sh": "${{ parameters.gateConnection }}",
        "promote.sh": "${{ parameters.promoteConnection }}",
        "golden.sh": "${{ variables.checkConnection }}",
        "image.sh": "${{ variables.buildConnection }}",
        "deploy.sh": "${{ variables.deployConnection }}",
    }


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_gets_the_variables_that_it_reads(script: str, by_script: dict[str, Any]) -> None:
    step = by_script[script]
    text = step_text(step)
    demanded = set(re.findall(r"\$\{(\w+):\?\}", text))
    ours = set(settings.variables())  # read by the command line that the script starts
    assert demanded <= set(step["env"])
    assert set(step["env"]) <= set(re.findall(r"\$\{?(\w+)", text)) | ours
    assert (step["task"], step["inputs"]["scriptType"]) == ("AzureCLI@2", "bash")
    assert step["inputs"]["visibleAzLogin"] is False
    assert {name for name in step["env"] if name.startswith("GATE_")} <= ours


@pytest.mark.parametrize("script", ["gate.sh", "promote.sh"])
def test_the_sign_in_outlives_a_long_wait(script: str, by_script: dict[str, Any]) -> None:
    assert by_script[script]["inputs"]["keepAzSessionActive"] is True


def test_each_time_limit_is_within_the_next(template: Any, by_script: dict[str, Any]) -> None:
    (job,) = stage_of(template, "Gate")["jobs"]
    gate, cancel = by_script["gate.sh"], by_script["cancel.sh"]
    assert gate["env"]["WAIT_SECONDS"] < 60 * gate["timeoutInMinutes"] < 60 * job["timeoutInMinutes"]
    assert (
        cancel["env"]["JOIN_SECONDS"] < 60 * cancel["timeoutInMinutes"] < 60 * job["cancelTimeoutInMinutes"]
    )
    assert cancel["condition"] == "canceled()"


def test_missing_test_results_are_a_failure(template: Any) -> None:
    (step,) = [step for step in all_steps(template) if step.get("task") == "PublishTestResults@2"]
    assert step["inputs"]["failTaskOnMissingResultsFile"] is True


def validate(*files: Path) -> subprocess.CompletedProcess[str]:
    """What the language service says of the files: 0 no fault, 1 faults."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        cannot_validate("node and npm are not on the path")
    command: list[str | Path] = ["node", VALIDATOR, SCHEMA, ROOT / ".tools", *files]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    if result.returncode not in {0, 1} or result.stderr:
        cannot_validate(f"the language service did not run: {result.stderr}")
    return result


def cannot_validate(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(f"azure-pipelines.yml IS NOT VALIDATED: {reason}")


@pytest.mark.parametrize("name", FILES)
def test_the_language_service_finds_no_fault(name: str) -> None:
    result = validate(ROOT / name)
    assert (result.returncode, result.stdout) == (0, "")


def test_the_language_service_takes_the_inclusion_that_the_readme_shows(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    shown = tmp_path / "azure-pipelines.yml"
    shown.write_text(block, encoding="utf-8")
    result = validate(shown)
    assert (result.returncode, result.stdout) == (0, "")
    (included,) = [stage for stage in yaml.safe_load(block)["stages"] if "template" in stage]
    assert included["template"] == "infra/pipelines/gate.yml@gate"
    parameters = yaml.safe_load(TEMPLATE)["parameters"]
    needed = {each["name"] for each in parameters if "default" not in each}
    assert needed <= set(included["parameters"]) <= {each["name"] for each in parameters}
    given = [stage["stage"] for stage in yaml.safe_load(block)["stages"] if "stage" in stage]
    assert included["parameters"]["dependsOn"] == given
    candidate = included["parameters"]["candidateIndex"]
    (source,) = re.findall(r"stageDependencies\.(\w+)\.", candidate)
    assert source in given


@pytest.mark.parametrize(
    ("text", "right", "wrong", "fault"),
    [
        (PIPELINE, "dependsOn: Build", "dependOn: Build", "Unexpected property dependOn"),
        (TEMPLATE, "scriptType: bash", "scriptType: bsh", "Value is not accepted"),
        (TEMPLATE, "azureSubscription:", "azureSubscriptoin:", 'Missing property "azureSubscription"'),
        (TEMPLATE, "PublishTestResults@2", "PublishTestResult@2", "String does not match the pattern"),
    ],
)
def test_the_language_service_refuses_a_broken_copy(
    text: str, right: str, wrong: str, fault: str, tmp_path: Path
) -> None:
    assert right in text
    broken = tmp_path / "azure-pipelines.yml"
    broken.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    result = validate(broken)
    assert result.returncode == 1
    assert fault in result.stdout
