"""Write the example files of the quickstart: orders of a shop, two models, and late labels."""

import csv
import random

r = random.Random(1)
hour = 3_600_000                                        # milliseconds
with open("predictions.csv", "w", newline="") as p, open("labels.csv", "w", newline="") as l:
    predictions, labels = csv.writer(p), csv.writer(l)
    predictions.writerow(["stream", "instance_id", "model", "y_pred", "ts"])
    labels.writerow(["stream", "instance_id", "y_true", "ts"])
    for day in range(60):
        for n in range(100):
            order, at = f"{day}-{n}", 1_704_067_200_000 + day * 24 * hour + n * hour // 6
            truth = "fraud" if r.random() < 0.2 else "ok"
            for model, error in (("current", 0.10 if day < 40 else 0.25), ("candidate", 0.07)):
                wrong = r.random() < error
                guess = {"fraud": "ok", "ok": "fraud"}[truth] if wrong else truth
                predictions.writerow(["orders", order, model, guess, at])
            labels.writerow(["orders", order, truth, at + r.randrange(24, 72) * hour])
