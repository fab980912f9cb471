"""The shape of custom resources, as far as our manifests use them.

Not the definitions themselves, which are thousands of lines: fields, types and values, written down from
those of Strimzi (API v1: KafkaTopic, KafkaUser), the Prometheus operator (v1: PodMonitor, PrometheusRule) and
KEDA (v1alpha1: ScaledObject). A field that isn't here fails: look it up in the definition, then add it.
"""

from __future__ import annotations

from typing import Any

_STRING: dict[str, Any] = {"type": "string"}
_STRINGS: dict[str, Any] = {"type": "object", "additionalProperties": _STRING}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}
#: Prometheus' durations.
_DURATION: dict[str, Any] = {"type": "string", "pattern": r"^(0|([0-9]+(ms|[smhdwy]))+)$"}


def _object(required: str = "", **properties: Any) -> dict[str, Any]:
    """An object with no other properties; `required` are names."""
    return {
        "type": "object", "properties": properties, "required": required.split(),
        "additionalProperties": False,
    }  # fmt: skip


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _resource(api: str, kind: str, spec: dict[str, Any]) -> tuple[tuple[str, str], dict[str, Any]]:
    metadata = _object("name", name=_STRING, namespace=_STRING, labels=_STRINGS, annotations=_STRINGS)
    whole = _object(
        "apiVersion kind metadata spec", apiVersion={"const": api}, kind={"const": kind}, metadata=metadata,
        spec=spec,
    )  # fmt: skip
    return (api, kind), whole


_SELECTOR = _object(matchLabels=_STRINGS)

_ACL = _object(
    "resource operations",
    type={"enum": ["allow", "deny"]},
    host=_STRING,
    resource=_object(
        "type",
        type={"enum": ["topic", "group", "cluster", "transactionalId"]},
        name=_STRING,
        patternType={"enum": ["literal", "prefix"]},
    ),
    operations=_list(
        {
            "enum": ["Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction",
                     "AlterConfigs", "DescribeConfigs", "IdempotentWrite", "All"]
        }
    ),
)  # fmt: skip

_RULE = _object(
    "expr", record=_STRING, alert=_STRING, expr=_STRING, labels=_STRINGS, annotations=_STRINGS,
    **{"for": _DURATION, "keep_firing_for": _DURATION},
)  # fmt: skip

_BEHAVIOR = _object(
    stabilizationWindowSeconds={"type": "integer", "minimum": 0, "maximum": 3600},
    selectPolicy={"enum": ["Max", "Min", "Disabled"]},
    policies=_list(
        _object(
            "type value periodSeconds", type={"enum": ["Pods", "Percent"]}, value=_COUNT,
            periodSeconds={"type": "integer", "minimum": 1, "maximum": 1800},
        )
    ),
)  # fmt: skip

#: By API version and kind.
SCHEMAS = dict(
    [
        _resource(
            "kafka.strimzi.io/v1",
            "KafkaTopic",
            _object(partitions=_COUNT, replicas=_COUNT, topicName=_STRING, config={"type": "object"}),
        ),
        _resource(
            "kafka.strimzi.io/v1",
            "KafkaUser",
            _object(
                authentication=_object("type", type={"enum": ["tls", "tls-external", "scram-sha-512"]}),
                authorization=_object("type acls", type={"const": "simple"}, acls=_list(_ACL)),
            ),
        ),
        _resource(
            "monitoring.coreos.com/v1",
            "PodMonitor",
            _object(
                "selector",
                selector=_SELECTOR,
                podMetricsEndpoints=_list(
                    _object(
                        port=_STRING, path=_STRING, interval=_DURATION, scrapeTimeout=_DURATION,
                        authorization=_object(credentials=_object("name key", name=_STRING, key=_STRING)),
                    )
                ),
            ),
        ),
        _resource(
            "monitoring.coreos.com/v1",
            "PrometheusRule",
            _object(groups=_list(_object("name", name=_STRING, interval=_DURATION, rules=_list(_RULE)))),
        ),
        _resource(
            "keda.sh/v1alpha1",
            "ScaledObject",
            _object(
                "scaleTargetRef triggers",
                scaleTargetRef=_object("name", apiVersion=_STRING, kind=_STRING, name=_STRING),
                minReplicaCount=_COUNT,
                maxReplicaCount=_COUNT,
                pollingInterval=_COUNT,
                cooldownPeriod=_COUNT,
                advanced=_object(
                    horizontalPodAutoscalerConfig=_object(
                        behavior=_object(scaleUp=_BEHAVIOR, scaleDown=_BEHAVIOR)
                    )
                ),
                triggers=_list(
                    _object(
                        "type metadata", type=_STRING, name=_STRING, metadata=_STRINGS,
                        metricType={"enum": ["AverageValue", "Value", "Utilization"]},
                    )
                ),
            ),
        ),
    ]
)  # fmt: skip
