"""Copy the output topics to topics in Avro, each message once.

`python to_avro.py BOOTSTRAP_SERVERS REGISTRY_URL [PREFIX]`
"""

import json
import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from prequential.topics.avro import avro_schema, avro_value

servers, registry, prefix = (*sys.argv[1:], "")[:3]
names = {f"{prefix}{name}": name for name in ("metrics", "comparisons", "drift-alarms", "incidents")}
client = SchemaRegistryClient({"url": registry})
write = {name: AvroSerializer(client, json.dumps(avro_schema(name))) for name in names.values()}
consumer = Consumer({
    "bootstrap.servers": servers, "group.id": f"{prefix}to-avro", "isolation.level": "read_committed",
    "auto.offset.reset": "earliest", "enable.auto.commit": False,
})
consumer.subscribe(list(names))
producer = Producer({"bootstrap.servers": servers, "transactional.id": f"{prefix}to-avro"})
producer.init_transactions()
while True:
    batch = [one for one in consumer.consume(1000, 1.0) if one.error() is None]
    if not batch:
        continue
    producer.begin_transaction()  # messages and offsets, both or neither
    for one in batch:
        name, topic = names[one.topic()], f"{one.topic()}-avro"
        message = avro_value(name, json.loads(one.value()))
        value = write[name](message, SerializationContext(topic, MessageField.VALUE))
        producer.produce(topic, value, one.key(), timestamp=one.timestamp()[1])
    read = [one for one in consumer.position(consumer.assignment()) if one.offset >= 0]
    producer.send_offsets_to_transaction(read, consumer.consumer_group_metadata())
    producer.commit_transaction()
