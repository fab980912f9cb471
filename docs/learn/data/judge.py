"""Write the example files of the judge tutorial, and the truth, which is unknown in reality."""

import csv
import json
import random

r = random.Random(3)
day, truth = 86_400, {}
answers = open("answers.csv", "w", newline="")
reviews = open("reviews.csv", "w", newline="")
answer_rows, review_rows = csv.writer(answers), csv.writer(reviews)
answer_rows.writerow(["answer", "given_at", "judge", "asked"])
review_rows.writerow(["answer", "verdict", "reviewed_at"])
for number in range(60 * 400):
    given_at = 1_704_067_200 + number * day // 400
    judge = round(r.betavariate(2, 0.7), 3)
    good = r.random() < judge ** 1.5                  # the judge is too lenient
    asked = 0.09 if 0.3 < judge < 0.8 else 0.03
    answer_rows.writerow([number, given_at, judge, asked])
    truth.setdefault(number // 400, []).append(good)
    if r.random() < asked:
        waited = int(r.expovariate(1 / (1.5 * day)))
        review_rows.writerow([number, "good" if good else "bad", given_at + waited])
answers.close()
reviews.close()
with open("truth.json", "w") as file:
    json.dump([sum(day) / len(day) for day in truth.values()], file)
