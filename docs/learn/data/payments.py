"""Write the example topics of the Avro tutorial: from payment 400 on, the model guesses."""

import json
import random

from confluent_kafka import SerializingProducer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer

SCORE = json.dumps({
    "type": "record", "name": "Score", "fields": [
        {"name": "payment", "type": {"type": "record", "name": "Payment", "fields": [
            {"name": "id", "type": "string"}, {"name": "country", "type": "string"}]}},
        {"name": "model", "type": "string"}, {"name": "score", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
})
ROW = {"type": "record", "name": "Row", "fields": [
    {"name": "payment_id", "type": "string"}, {"name": "chargeback", "type": "boolean"},
    {"name": "changed", "type": "long"}]}
CHANGE = json.dumps({
    "type": "record", "name": "Envelope", "fields": [
        {"name": "before", "type": ["null", ROW], "default": None}, {"name": "after", "type": ["null", "Row"]},
        {"name": "op", "type": "string"},
    ],
})
admin = AdminClient({"bootstrap.servers": "localhost:9092"})
topics = [NewTopic("tutorial.scores", 3, 1), NewTopic("tutorial.public.chargebacks", 2, 1)]
for created in admin.create_topics(topics).values():
    created.result(60)

registry = SchemaRegistryClient({"url": "http://localhost:8081"})
def producer(schema):
    serializer = AvroSerializer(registry, schema)
    return SerializingProducer({"bootstrap.servers": "localhost:9092", "value.serializer": serializer})

scores, changes = producer(SCORE), producer(CHANGE)
r, hour = random.Random(1), 3_600_000
for number in range(600):
    at, fraud = 1_700_000_000_000 + number * 12_000, r.random() < 0.3
    right = r.random() < (0.95 if number < 400 else 0.5)
    score = r.uniform(0.7, 1) if fraud == right else r.uniform(0, 0.6)
    payment = {"id": f"p{number}", "country": r.choice(["DE", "FR"])}
    scores.produce("tutorial.scores", value={"payment": payment, "model": "forest", "score": score, "at": at})
    row = {"payment_id": f"p{number}", "chargeback": fraud, "changed": 1000 * (at + 24 * hour)}
    changes.produce("tutorial.public.chargebacks", value={"before": None, "after": row, "op": "c"})
scores.flush()
changes.flush()
