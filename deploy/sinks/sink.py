"""Write the topic `metrics` into a table of SQLite: `python sink.py BOOTSTRAP_SERVERS DATABASE [PREFIX]`."""

import json
import sqlite3
import sys

from confluent_kafka import Consumer

servers, path, prefix = (*sys.argv[1:], "")[:3]
database = sqlite3.connect(path)
database.execute(
    "CREATE TABLE IF NOT EXISTS metrics (id TEXT, ts INTEGER, stream TEXT, model TEXT, segment TEXT,"
    " stage TEXT, estimator TEXT, outcomes INTEGER, measure TEXT, value REAL, PRIMARY KEY (id, measure))"
)
about = ("id", "ts", "stream", "model", "segment", "stage", "estimator", "outcomes")
consumer = Consumer({
    "bootstrap.servers": servers, "group.id": f"{prefix}sink", "isolation.level": "read_committed",
    "auto.offset.reset": "earliest", "enable.auto.commit": False,
})
consumer.subscribe([f"{prefix}metrics"])
while True:
    batch = [one for one in consumer.consume(1000, 1.0) if one.error() is None]
    if not batch:
        continue
    with database:  # one transaction; a row that exists is replaced
        for message in map(json.loads, (one.value() for one in batch)):
            fields = [message[name] for name in about]
            rows = [[*fields, *measure] for measure in message["measures"].items()]
            database.executemany("INSERT OR REPLACE INTO metrics VALUES (?,?,?,?,?,?,?,?,?,?)", rows)
    consumer.commit(asynchronous=False)  # after the rows: a killed process reads them again
