"""Whether a run's candidate may become the live index now: every condition with its state, and what to do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.domain.caller import same_caller
from app.domain.condition import Condition, Need
from app.domain.fingerprint import IndexFingerprint, changes
from app.domain.overrides import Override, never, waived
from app.domain.query import Side
from app.domain.reasons import Verdict
from app.domain.run import Run, State

_AGAIN = "Run again against what is there now."


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the deployment asks of a promotion beyond the set's policy.

    `required_sets`: names of the sets that must all have a cleared run. `sent_sets`: whether a set that was
    sent along may be promoted on. `four_eyes`: whether who overrode a run is kept from promoting it.
    """

    required_sets: tuple[str, ...] = ()
    sent_sets: bool = False
    four_eyes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedSet:
    """The deployed golden set of the run's set's name, as it is now: digests of the set and of its queries."""

    golden_set: str
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredSet:
    """A required set, and the run of it that is cleared; None: no run is, and `why`."""

    name: str
    run: str | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything about now that a promotion depends on.

    `where`: the place that names the live index; `live`: the concrete index that it names, None for none.
    `create`: whether it was agreed to that the place is made where it names nothing. `baseline`, `candidate`:
    the run's indexes as they are, without an inventory; a text: why that could not be found out. `deployed`
    likewise. `looser`: settings in which the run's policy is looser than that of the set it received.
    `required`: one for each of the rules' required sets but the run's own.
    """

    at: datetime
    where: str
    live: str | None
    create: bool = False
    baseline: IndexFingerprint | str
    candidate: IndexFingerprint | str
    deployed: DeployedSet | str
    looser: tuple[str, ...] = ()
    required: tuple[RequiredSet, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearance:
    """Whether the run may be promoted, `at` that time, and why. `override`: the one that it rests on, if any.

    `live`: the index that was live then. It can change at any time: what is promoted is cleared anew.
    """

    run: str
    at: datetime
    cleared: bool
    live: str | None
    conditions: tuple[Condition, ...]
    override: Override | None = None

    @property
    def failed(self) -> tuple[Condition, ...]:
        return tuple(condition for condition in self.conditions if not condition.holds)


def clearance(
    run: Run, overrides: Sequence[Override], situation: Situation, rules: Rules, *, by: str | None
) -> Clearance:
    """The clearance of a run, for `by` to promote it; None where nobody signs in. All that fails is listed."""
    override = waived(run, overrides)
    conditions = (
        _verdict(run, override),
        _trusted(run, situation, rules),
        _something_to_promote(run),
        _recognisable(run),
        _baseline_live(run, situation),
        _unchanged(run, Side.BASELINE, situation.baseline),
        _unchanged(run, Side.CANDIDATE, situation.candidate),
        *_current(run, situation, rules),
        _age(run, situation.at),
        *_required(situation),
        _four_eyes(run, overrides if override else (), rules, by),
    )
    return Clearance(
        run=run.id,
        at=situation.at,
        cleared=all(condition.holds for condition in conditions),
        live=situation.live,
        conditions=conditions,
        override=override,
    )


def _holds(code: Need, message: str) -> Condition:
    return Condition(code=code, holds=True, message=message)


def _fails(code: Need, message: str) -> Condition:
    return Condition(code=code, holds=False, message=message)


def _verdict(run: Run, override: Override | None) -> Condition:
    if run.state is not State.DONE or run.verdict is None:
        return _fails(Need.VERDICT, f"The run is {run.state.value}: wait until it is done.")
    if run.verdict is Verdict.PASS:
        return _holds(Need.VERDICT, "The verdict is PASS.")
    if override is not None:
        who = override.by or "somebody who was not signed in"
        return _holds(Need.VERDICT, f"The verdict is FAIL, overridden by {who}: {override.reason}")
    if never(run) is not None:
        return _fails(Need.VERDICT, f"The verdict is {run.verdict.value}, and must be PASS. {never(run)}")
    return _fails(
        Need.VERDICT,
        f"The verdict is {run.verdict.value}, and must be PASS, or overridden in all that it names. Correct the "
        "candidate or the labels and run again, or have it overridden by name.",
    )


def _trusted(run: Run, situation: Situation, rules: Rules) -> Condition:
    golden = run.golden_set
    if run.noise_study:
        return _fails(Need.TRUSTED, "The run is a noise study, which is never promoted: compare two indexes.")
    found = []
    if golden.slices:
        found.append(f"only the slices {', '.join(golden.slices)} of the set were asked: ask the whole set")
    elif not golden.deployed and not rules.sent_sets:
        found.append(
            f"the set {golden.name!r} ({golden.digest}) was sent along, not deployed: run a deployed set "
            "(GATE_PROMOTE_SENT_SETS=true would admit it)"
        )
    if situation.looser:
        found.append(
            f"its policy is looser than the set's own in {', '.join(situation.looser)}: run under the set's own"
        )
    if golden.deployed and not run.trusted and not found:
        found.append("it was recorded as not trusted: run the deployed set under its own policy")
    if found:
        return _fails(Need.TRUSTED, f"The run is not trusted: {'; '.join(found)}.")
    if golden.deployed:
        return _holds(Need.TRUSTED, "The set is a deployed one, under a policy no looser than its own.")
    return _holds(
        Need.TRUSTED, f"The set was sent along, which is admitted here; it is recorded as {golden.digest}."
    )


def _something_to_promote(run: Run) -> Condition:
    if run.noise_study or run.candidate.index == run.baseline.index:
        return _fails(
            Need.SOMETHING_TO_PROMOTE,
            f"Both sides are the index {run.candidate.index!r}: there is nothing to switch to. A query is changed "
            "in the application.",
        )
    return _holds(Need.SOMETHING_TO_PROMOTE, f"The candidate is {run.candidate.index!r}.")


def _recognisable(run: Run) -> Condition:
    judged = run.fingerprint
    if judged is None:
        return _fails(Need.RECOGNISABLE, "The run has no fingerprint of what it judged. Run again.")
    unread = [
        each.index
        for each in (judged.baseline, judged.candidate)
        if each.definition_digest is None or each.etag is None
    ]
    if unread:
        return _fails(
            Need.RECOGNISABLE,
            f"The definition of {' and '.join(unread)} could not be read when the run was made, so that what was "
            "judged cannot be recognised: give the gate's identity Search Service Contributor, and run again.",
        )
    return _holds(Need.RECOGNISABLE, "Definitions and etags of both indexes are known from the run.")


def _baseline_live(run: Run, situation: Situation) -> Condition:
    if situation.live is None and situation.create:
        return _holds(Need.BASELINE_LIVE, f"Nothing is live: {situation.where} names nothing and is created.")
    if situation.live is None:
        return _fails(
            Need.BASELINE_LIVE,
            f"The run compared with {run.baseline.index!r}, and nothing is live: {situation.where} does not exist. "
            "Check its name and label, or agree to its creation.",
        )
    if situation.live != run.baseline.index:
        return _fails(
            Need.BASELINE_LIVE,
            f"The run compared with {run.baseline.index!r}, and live is {situation.live!r} now: run again with it "
            "as the baseline.",
        )
    return _holds(Need.BASELINE_LIVE, f"The baseline {situation.live!r} is live.")


def _unchanged(run: Run, side: Side, now: IndexFingerprint | str) -> Condition:
    """Whether the index still is the one that was judged; contents that were replaced without a change of
    definition, etag or count do not show here (see `fingerprint.changes`).
    """
    code = Need.BASELINE_UNCHANGED if side is Side.BASELINE else Need.CANDIDATE_UNCHANGED
    name = f"The {side.value} {run.side(side).index!r}"
    if run.fingerprint is None:
        return _fails(code, f"{name} cannot be compared: the run has no fingerprint. Run again.")
    if isinstance(now, str):
        return _fails(code, f"{name} could not be looked at: {now}")
    was = run.fingerprint.baseline if side is Side.BASELINE else run.fingerprint.candidate
    found = changes(was, now, documents=run.policy.max_documents_changed)
    if found:
        return _fails(code, f"{name} is not what was judged: {'; '.join(found)}. {_AGAIN}")
    return _holds(code, f"{name} is what was judged: etag {now.etag}, {now.documents} documents.")


def _current(run: Run, situation: Situation, rules: Rules) -> Iterator[Condition]:
    """Whether set and query still are the deployed ones."""
    golden, deployed = run.golden_set, situation.deployed
    if not golden.deployed and not golden.slices and rules.sent_sets:
        yield _holds(Need.SET_CURRENT, f"The set was sent along: {golden.digest}.")
        yield _holds(Need.QUERY_CURRENT, "The query was sent along with the set.")
        return
    if isinstance(deployed, str):
        yield _fails(Need.SET_CURRENT, f"The set {golden.name!r} cannot be compared: {deployed}")
        yield _fails(
            Need.QUERY_CURRENT, f"The query of the set {golden.name!r} cannot be compared: {deployed}"
        )
        return
    if golden.digest == deployed.golden_set:
        yield _holds(Need.SET_CURRENT, f"The set {golden.name!r} is the deployed one, {golden.digest}.")
    else:
        yield _fails(
            Need.SET_CURRENT,
            f"The set {golden.name!r} was {golden.digest}, and {deployed.golden_set} is deployed now: run again.",
        )
    asked = run.fingerprint.query if run.fingerprint else "not recorded"
    if asked == deployed.query:
        yield _holds(Need.QUERY_CURRENT, f"The query is the deployed one, {asked}.")
    else:
        yield _fails(
            Need.QUERY_CURRENT,
            f"The query was {asked}, and {deployed.query} is deployed now: run again.",
        )


def _age(run: Run, at: datetime) -> Condition:
    limit = timedelta(hours=run.policy.max_verdict_age_hours)
    if run.finished_at is None:
        return _fails(Need.AGE, "The run has not finished: wait until it is done.")
    age = at - run.finished_at
    told = (
        f"{age / timedelta(hours=1):.1f} hours old; max_verdict_age_hours is {limit / timedelta(hours=1):g}"
    )
    if age > limit:
        return _fails(Need.AGE, f"The verdict is {told}. Run again.")
    return _holds(Need.AGE, f"The verdict is {told}.")


def _required(situation: Situation) -> Iterator[Condition]:
    for each in situation.required:
        if each.run is not None:
            yield _holds(Need.REQUIRED_SET, f"The required set {each.name!r} is cleared by run {each.run}.")
        else:
            yield _fails(Need.REQUIRED_SET, f"The required set {each.name!r} has no cleared run: {each.why}")


def _four_eyes(run: Run, overrides: Sequence[Override], rules: Rules, by: str | None) -> Condition:
    """Whether somebody else promotes than who overrode. `overrides`: empty where the run needs none."""
    if not overrides:
        return _holds(Need.FOUR_EYES, "Nothing is overridden.")
    if not rules.four_eyes:
        return _holds(Need.FOUR_EYES, "Who overrode may promote here (GATE_FOUR_EYES=false).")
    if by is None:
        return _holds(Need.FOUR_EYES, "Nobody signs in here, so that nobody can be told apart.")
    givers = {override.by for override in overrides if override.run == run.id}
    if any(same_caller(by, giver) for giver in givers):
        return _fails(
            Need.FOUR_EYES, f"{by} overrode this run, and may not promote it as well: somebody else has to."
        )
    if None in givers:
        return _fails(
            Need.FOUR_EYES,
            f"This run was overridden by somebody who was not signed in, who may be {by}: have it overridden by "
            "name, in a new run.",
        )
    return _holds(Need.FOUR_EYES, f"{by} promotes what others overrode.")
