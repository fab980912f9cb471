"""The effect of a changed key on the state, in words, next to the result of a restore.

Each key of the configuration has a line here. That of a stream's key applies if the restore keeps everything.
"""

from __future__ import annotations

from collections.abc import Mapping

_ON = "kept; counts from now on"
_SAYS = "kept; messages have it from now on"
_COMPARED = "kept; verdicts use it from now on"
_RUNS = "kept; each worker uses it after its restart"

#: Keys of streams. If the engine reports that something begins empty or ends, that replaces the line.
OF_STREAM: Mapping[str, str] = {
    "task": _ON,  # the engine refuses it
    "loss": "kept; losses of outcomes from now on",
    "positive_class": "kept; measures of it from now on, of what was counted as well",
    "estimators": "kept, in another order of messages",
    "measures": _SAYS,
    "stages": "kept, in another order of messages",
    "temporal_correction": "kept; MODEL+temporal begins with records from now on",
    "baselines": "kept; MODEL@random needs no state",
    "segments": "kept; a new key applies to records from now on",
    "segments_per_key": "kept, but for values beyond it; new ones within it have segments of their own",
    "period": "kept",
    "period_zone": "kept",
    "period_final_at": _ON,
    "expected": "kept; estimates of periods appear from now on, or no more",
    **{f"period_alarms.{name}": _ON for name in ("concept", "delays", "inputs", "miss")},
    "details": _SAYS,
    "coverage": _SAYS,
    "dependence_order": _SAYS,
    "bins": "kept; counts where there are bins",
    "alpha": "kept; intermediate is weighted by it from now on",
    "label_horizon": "kept; deadlines of pending predictions move with it",
    "label_at_horizon": "kept; what reaches its horizon from now on goes by it",
    "cost_per_value": "kept; costs by value of outcomes from now on",
    "value_limit": "kept; comparisons by cost start again",
    "top_k": "kept; top_k_accuracy of outcomes from now on",
    "quantile": "kept; pinball by it from now on, of what was counted as well",
    "season": "kept; mase and rmsse of outcomes from now on",
    "costs": "kept; measures of it from now on, of what was counted as well",
    "settle": _ON,
    "detectors": "kept",
    "cluster": "kept; clusters of another length are collected from scratch, and open incidents are closed",
    "incident_budget": "kept; incidents open by it from now on",
    "incident_loss": "kept; the history behind incidents is collected from scratch",
    "compare": "kept; pairs that are new are compared from now on",
    "champion": "kept; pairs that are new are compared from now on",
    "compare_losses": "kept",
    "compare_stages": "kept; pairs of stages that are new are compared from now on",
    "compare_level": _COMPARED,
    "mcnemar_level": _COMPARED,
    "objective": "kept; its bounds hold from now on",
    "disparity": "kept; groups are compared by it from now on",
    "alarm_budget": "kept; thresholds that aren't configured follow from it from now on",
    "alarm_change": "kept; it is what `prequential calibrate` reports of",
    "key": "kept by partition; what partitions know is merged from now on, or no more; instances that wait "
    "meet their labels if producers go on keying these as before",
    "versions": "kept; versions that come from now on are evaluated so",
    "emit.outcomes": _SAYS,
    "emit.every": _SAYS,
    "emit.comparisons": _SAYS,
    "emit.idle": _SAYS,
}

_TO_COME = "kept; it is of topics that are yet to be created"
_LIMIT = "kept, also beyond it; what is new beyond it goes to dead letters from now on"
_SERVED = "kept; it is of /metrics and pages"

#: Of everything else; a key that ends with a dot stands for all that begin with it.
OF_REST: Mapping[str, str] = {
    "kafka.bootstrap_servers": "kept if it is the same cluster by another address; in another cluster "
    "everything begins empty, as inputs, journal and state are topics",
    "kafka.prefix": "everything begins empty, because topics and group change; data under the earlier "
    "prefix stay there, and continue if that prefix is configured again",
    "kafka.partitions": "kept; it applies to new topics: `prequential topics grow` raises "
    "existing ones, with their state",
    "kafka.replication": _TO_COME,
    "kafka.security.": "kept; it changes the access to the cluster",
    "kafka.schema_registry.": "kept; it changes how ingest reads schemas",
    "limits.streams_per_shard": _LIMIT,
    "limits.models_per_stream": _LIMIT,
    "limits.classes_per_stream": _LIMIT,
    "limits.instances_per_shard": _LIMIT,
    "limits.predictions_per_instance": _LIMIT,
    "limits.pairs_per_stream": "kept; further pairs beyond it are not compared",
    "limits.versions_per_model": "kept; beyond it the next version replaces the oldest one",
    "http.": _SERVED,
    "worker.group": "kept, because state belongs to partitions; but workers of the earlier group "
    "keep theirs: stop them all before",
    "worker.": _RUNS,
    "files.": "kept; it applies to replays",
    "notify.group": "kept; the new group begins with messages after its start",
    "notify.": "kept; `prequential notify` uses it after its restart",
    "ingest.": "kept; a new topic is read from its beginning, and others continue at their offsets",
}


def of_rest(key: str) -> str:
    """What a change of a key that is no stream's means.

    >>> of_rest("worker.grace")
    'kept; each worker uses it after its restart'
    """
    groups = (text for name, text in OF_REST.items() if name.endswith(".") and key.startswith(name))
    return OF_REST.get(key) or next(groups)
