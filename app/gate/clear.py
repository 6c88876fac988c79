"""Find out whether a run may be promoted now: look at everything that its clearance depends on."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from app.domain.clearance import Clearance, DeployedSet, RequiredSet, Situation, clearance
from app.domain.errors import BrokenError, InputError, NotFoundError, StorageError
from app.domain.fingerprint import IndexFingerprint, changes, maps_digest
from app.domain.golden import GoldenSet
from app.domain.index import definition_digest
from app.domain.policy import looser_settings
from app.domain.query import Queries, Side, queries_digest
from app.domain.reading import read_golden_set
from app.domain.run import Run, State
from app.gate.control import LiveControl
from app.gate.ports import LiveValue
from app.gate.reviews import overrides_of

LONGEST_RUN = timedelta(days=1)  # from a run's creation to its end, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """A clearance, and what was named live when it was taken: what a promotion must find unchanged."""

    run: Run
    clearance: Clearance
    live: LiveValue | None


async def clear(control: LiveControl, run_id: str, *, by: str | None, create: bool = False) -> Cleared:
    """The clearance of a run as of now, for `by` to promote it. Nothing is recorded.

    `create`: it is agreed to that the place is made where it names nothing. NotFoundError for an unknown run,
    LiveError where the place cannot be read. What else cannot be looked at is a condition that does not hold.
    """
    run, _ = await control.records.read(run_id)
    live = await control.live()
    look = _Look(control=control, run=run, by=by)
    situation = await look.situation(live, create=create)
    overrides = await overrides_of(control.records, run.id)
    own = clearance(run, overrides, situation, control.rules, by=by)
    required = await look.required(situation)
    if required:
        own = clearance(run, overrides, replace(situation, required=required), control.rules, by=by)
    return Cleared(run=run, clearance=own, live=live)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What is looked at for one run, promoted by `by`."""

    control: LiveControl
    run: Run
    by: str | None

    async def situation(self, live: LiveValue | None, *, create: bool) -> Situation:
        """Everything but the required sets."""
        maps = await self._maps()
        baseline, candidate = await asyncio.gather(
            *(self._index(self.run.side(side).index, maps) for side in Side)
        )
        deployed = await deployed_set(self.control, self.run.golden_set.name)
        return Situation(
            at=self.control.now(),
            where=self.control.pointer.where,
            live=None if live is None else await self._concrete(live.index),
            create=create,
            baseline=baseline,
            candidate=candidate,
            deployed=_digests(deployed),
            looser=await self._looser(self.run, deployed),
        )

    async def required(self, situation: Situation) -> tuple[RequiredSet, ...]:
        """Each required set but the run's own, with the run of it that is cleared apart from that."""
        golden = self.run.golden_set
        wanted = {
            name: await deployed_set(self.control, name)
            for name in self.control.rules.required_sets
            if not (golden.deployed and golden.name == name)
        }
        found: dict[str, RequiredSet] = {}
        async for other in self._others(wanted):
            name = other.golden_set.name
            before = found.get(name)
            if before is None or before.run is None:
                each = await self._cleared(other, situation, wanted[name])
                found[name] = each if each.run is not None else (before or each)  # else the newest says why
            if all(name in found and found[name].run for name in wanted):
                break
        return tuple(found.get(name) or self._none(name, deployed) for name, deployed in wanted.items())

    def _none(self, name: str, deployed: GoldenSet | str) -> RequiredSet:
        if isinstance(deployed, str):
            return RequiredSet(name=name, run=None, why=deployed)
        compared = f"{self.run.baseline.index!r} with {self.run.candidate.index!r}"
        return RequiredSet(name=name, run=None, why=f"no run of it compared {compared}. Run it.")

    async def _others(self, wanted: Mapping[str, GoldenSet | str]) -> AsyncIterator[Run]:
        """The runs of the wanted sets over the same two indexes that may still be young enough, newest first."""
        ages = [each.policy.max_verdict_age_hours for each in wanted.values() if isinstance(each, GoldenSet)]
        if not ages:
            return
        oldest = self.control.now() - timedelta(hours=max(ages)) - LONGEST_RUN
        async for other in self.control.records.newest_first():
            if other.created_at < oldest:
                return
            same = all(other.side(side).index == self.run.side(side).index for side in Side)
            golden = other.golden_set
            if same and golden.deployed and golden.name in wanted and other.state is State.DONE:
                yield other

    async def _cleared(self, other: Run, situation: Situation, deployed: GoldenSet | str) -> RequiredSet:
        name = other.golden_set.name
        now = replace(
            situation, deployed=_digests(deployed), looser=await self._looser(other, deployed), required=()
        )
        overrides = await overrides_of(self.control.records, other.id)
        own = clearance(other, overrides, now, self.control.rules, by=self.by)
        why = [condition.message for condition in own.failed]
        if self.run.fingerprint is not None and other.fingerprint is not None:
            allowed = self.run.policy.max_documents_changed
            differ = changes(self.run.fingerprint.candidate, other.fingerprint.candidate, documents=allowed)
            if differ:
                why.append(f"It judged another candidate of that name: {'; '.join(differ)}. Run it again.")
        if why:
            return RequiredSet(name=name, run=None, why=f"its newest run {other.id}: {' '.join(why)}")
        return RequiredSet(name=name, run=other.id)

    async def _maps(self) -> str | None:
        try:
            return maps_digest(await self.control.search.synonym_maps(self.control.deadline()))
        except BrokenError:
            return None

    async def _index(self, name: str, maps: str | None) -> IndexFingerprint | str:
        """The index as it is now, read as the run read it (`inspect`), without its inventory; or why not."""
        search, deadline = self.control.search, self.control.deadline()
        try:
            described = await search.describe(name, deadline)
            documents = await search.document_count(described.name, deadline)
        except BrokenError as error:
            return str(error)
        definition = described.definition
        return IndexFingerprint(
            index=described.name,
            definition_digest=None if definition is None else definition_digest(definition),
            etag=described.etag,
            documents=documents,
            synonym_maps=maps,
            inventory=None,
        )

    async def _concrete(self, live: str) -> str:
        """The index that a name stands for, where a key names an alias."""
        if live == self.run.baseline.index:
            return live
        try:
            return (await self.control.search.describe(live, self.control.deadline())).name
        except BrokenError:
            return live

    async def _looser(self, run: Run, deployed: GoldenSet | str) -> tuple[str, ...]:
        """The settings in which the run's policy is looser than that of the set as it received it."""
        if isinstance(deployed, GoldenSet) and deployed.digest == run.golden_set.digest:
            return looser_settings(run.policy, deployed.policy)
        texts = await self.control.records.texts(run)
        try:
            received = await asyncio.to_thread(read_golden_set, texts)
        except InputError as error:  # it could be read when the run was started
            raise StorageError(
                f"The golden set kept with run {run.id} cannot be read any more: {error}"
            ) from error
        return looser_settings(run.policy, received.policy)


async def deployed_set(control: LiveControl, name: str) -> GoldenSet | str:
    """The deployed golden set of that name as it is now, or why there is none."""

    def read() -> GoldenSet:
        return read_golden_set(control.golden_sets.texts(name))

    try:
        return await asyncio.to_thread(read)
    except (InputError, NotFoundError) as error:
        return f"it is not deployed as it should be: {error}"


def _digests(deployed: GoldenSet | str) -> DeployedSet | str:
    if isinstance(deployed, str):
        return deployed
    queries = Queries(baseline=deployed.baseline_query, candidate=deployed.candidate_query)
    return DeployedSet(golden_set=deployed.digest, query=queries_digest(queries))
