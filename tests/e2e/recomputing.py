"""A reader of run.json that shares nothing with the product: outcomes, counts, lists and verdict by hand.

Written from the contract's words alone, with `questions`, `policy`, `query` and `checks` as its only input.
"""

from collections import Counter
from itertools import product
from typing import Any

Json = dict[str, Any]

SIDES = ("baseline", "candidate")
FIRST = ("cancelled", "interrupted")  # the verdict is that of the first group in which a reason holds
FAILS = ("net-loss", "slice-loss", "lost-documents", "destabilised")


def in_context(question: Json, observation: Json, query: Json) -> bool | None:
    """None: the observation failed."""
    if observation["error"] is not None:
        return None
    answers, each_one = question["answers"], question["require_all"]
    entries = [[entry] if isinstance(entry, str) else entry for entry in answers] if each_one else [answers]
    return all(entry_in_context(entry, observation["hits"], query) for entry in entries)


def entry_in_context(documents: list[str], hits: list[Json], query: Json) -> bool:
    """Whether the first chunk of any of the documents is among those that the model gets."""
    of_them = [hit for hit in hits if hit["parent"] in documents]
    if not of_them:
        return False
    first = min(of_them, key=lambda hit: int(hit["rank"]))
    if first["rank"] > query["context_size"]:
        return False
    limits = (("score", query["min_score"]), ("reranker_score", query["min_reranker_score"]))
    return all(not limit or (first[name] is not None and first[name] >= limit) for name, limit in limits)


def seen(question: Json, query: Json) -> tuple[list[bool | None], list[bool | None]]:
    before, after = (
        [in_context(question, observation, query[side]) for observation in question[side]] for side in SIDES
    )
    return before, after


def outcome(question: Json, query: Json) -> str:
    if not question["answers"]:
        return "unlabelled"
    gone = set(question["missing"]["baseline"]) & set(question["missing"]["candidate"])
    entries = question["answers"] if question["require_all"] else [question["answers"]]
    if any({entry} <= gone if isinstance(entry, str) else set(entry) <= gone for entry in entries):
        return "stale"
    before, after = seen(question, query)
    if not before or not after or None in before + after:
        return "error"
    if all(before) and all(after):
        return "kept"
    if not any(before) and not any(after):
        return "absent"
    if all(before) and not any(after):
        return "lost"
    if not any(before) and all(after):
        return "gained"
    return "noisy"


def critical_lost(question: Json, query: Json) -> bool:
    """In every way in which the failed observations might have ended."""
    before, after = seen(question, query)
    if not question["critical"] or not question["answers"] or not before or not after:
        return False
    return all(
        is_lost(list(whole[: len(before)]), list(whole[len(before) :]))
        for whole in product(*([True, False] if each is None else [each] for each in before + after))
    )


def is_lost(before: list[bool], after: list[bool]) -> bool:
    return (all(before) and not all(after)) or (any(before) and not any(after))


def recomputed(record: Json) -> Json:
    """What the record should say."""
    policy, query, asked = record["policy"], record["query"], record["questions"]
    results = {each["id"]: outcome(each, query) for each in asked}
    count = Counter(results.values())
    evaluated = sum(count[each] for each in ("kept", "absent", "lost", "gained", "noisy"))
    labelled = evaluated + count["stale"] + count["error"]
    critical = [each["id"] for each in asked if critical_lost(each, query)]
    shown = [
        each["id"]
        for each in asked
        if any(hit["parent"] in each["forbidden"] for one in each["candidate"] for hit in one["hits"])
    ]
    failed = [each for each in asked if any(one["error"] for side in SIDES for one in each[side])]
    guarded = [each for each in failed if each["critical"] or each["forbidden"]]
    ever = any(True in side for each in asked if each["answers"] for side in seen(each, query))
    unsteady = Counter(
        shift(each, query) for each in asked if results[each["id"]] not in ("error", "unlabelled")
    )

    holds = {check["code"] for check in record["checks"] if check["level"] == "blocking"}
    rules = {
        "forbidden-hit": bool(shown),
        "critical-lost": bool(critical),
        "nothing-evaluated": not evaluated or not ever,
        "too-few-evaluated": labelled > 0 and evaluated / labelled < policy["min_evaluated_share"],
        "question-errors": bool(guarded) or len(failed) > policy["max_question_errors"],
        "too-noisy": evaluated > 0 and count["noisy"] / evaluated > policy["max_noisy_share"],
        "critical-stale": any(each["critical"] and results[each["id"]] == "stale" for each in asked),
        "net-loss": count["lost"] - count["gained"] > policy["max_net_loss"],
        "slice-loss": any(net_of(name, asked, results) > 0 for name in policy["protected_slices"]),
        "destabilised": policy["max_net_destabilised"] is not None
        and unsteady["de"] - unsteady["re"] > policy["max_net_destabilised"],
    }
    holds |= {code for code, held in rules.items() if held}
    return {
        "outcomes": results,
        "codes": holds,
        "verdict": verdict(holds),
        "lost": [each["id"] for each in asked if results[each["id"]] == "lost" or each["id"] in critical],
        "gained": [name for name, each in results.items() if each == "gained"],
        "counts": {
            **{
                name: count[name]
                for name in ("kept", "absent", "lost", "gained", "noisy", "unlabelled", "stale")
            },
            "questions": len(asked),
            "labelled": labelled,
            "evaluated": evaluated,
            "errors": count["error"],
            "critical_lost": len(critical),
            "forbidden_hits": len(shown),
            "destabilised": unsteady["de"],
        },
    }


def shift(question: Json, query: Json) -> str:
    """`de` from steady to noisy, `re` the reverse; a side of one observation cannot tell."""
    before, after = seen(question, query)
    if len(before) < 2 or len(after) < 2:
        return ""
    steady = [len(set(each)) == 1 for each in (before, after)]
    return {(True, False): "de", (False, True): "re"}.get((steady[0], steady[1]), "")


def net_of(name: str, asked: list[Json], results: dict[str, str]) -> int:
    inside = Counter(results[each["id"]] for each in asked if name in each["slice"])
    return inside["lost"] - inside["gained"]


def verdict(codes: set[str]) -> str:
    if codes & set(FIRST):
        return "ERROR"
    if "forbidden-hit" in codes:
        return "FAIL"
    if "index-changed" in codes:
        return "ERROR"
    if "critical-lost" in codes:
        return "FAIL"
    if codes - set(FAILS):
        return "ERROR"
    return "FAIL" if codes else "PASS"
