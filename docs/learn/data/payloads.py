"""Write the example topics of the KServe tutorial: payloads of two models, and the truth."""

import json
import random

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

admin = AdminClient({"bootstrap.servers": "localhost:9092"})
topics = [NewTopic("tutorial.payloads", 3, 1), NewTopic("tutorial.truth", 1, 1)]
for created in admin.create_topics(topics).values():
    created.result(60)
producer = Producer({"bootstrap.servers": "localhost:9092"})

def log(what, request, time, data):
    about = {"id": request, "type": f"org.kubeflow.serving.inference.{what}", "time": time, "specversion": "1.0",
             "source": "http://kserve", "inferenceservicename": "churn", "component": "predictor"}
    headers = [(f"ce_{name}", text.encode()) for name, text in about.items()]
    headers.append(("content-type", b"application/json"))
    producer.produce("tutorial.payloads", json.dumps(data).encode(), request.encode(), headers=headers)
    producer.poll(0)

r = random.Random(1)
for number in range(3000):
    request, truth = f"r{number}", r.randrange(2)
    time = f"2024-03-04T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}"
    log("request", request, f"{time}Z", {"inputs": [{"name": "x", "data": [0.5]}]})
    for model, share in (("champion", 0.8), ("challenger", 0.88)):
        answer = truth if r.random() < share else 1 - truth
        outputs = [{"name": "y", "datatype": "INT64", "data": [answer]}]
        log("response", request, f"{time}.100Z", {"model_name": model, "outputs": outputs})
    known = 1_709_510_400 + number + 60
    producer.produce("tutorial.truth", json.dumps({"request": request, "left": truth, "known": known}).encode())
producer.flush()
