"""Write the example file of the churn tutorial: from week 10 on, customers with the plan `family` change."""

import csv
import random

r = random.Random(1)
day = 86_400
with open("churn.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["customer", "day", "scored_at", "score", "plan", "churned", "known_at"])
    for number in range(9000):
        scored_at = 1_704_067_200 + number * 15 * 60
        week = number * 15 * 60 // (7 * day)
        plan = r.choice(["single", "family", "student"])
        score = r.random() ** 2
        leaves = r.random() < (1 - score if plan == "family" and week >= 9 else score)
        known_at = scored_at + 7 * day + r.randrange(day)
        known = number < 8000
        label = (int(leaves), known_at) if known else ("", "")
        rows.writerow([f"c{number % 96:02}", number // 96, scored_at, round(score, 3), plan, *label])
