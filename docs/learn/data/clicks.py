"""Write the example files of the clicks tutorial: from week 6 on, people click less."""

import csv
import random

r = random.Random(5)
hour, day, first = 3_600, 86_400, 1_704_067_200
shown = open("shown.csv", "w", newline="")
clicks = open("clicks.csv", "w", newline="")
shown_rows, click_rows = csv.writer(shown), csv.writer(clicks)
shown_rows.writerow(["id", "shown_at", "score"])
click_rows.writerow(["id", "clicked_at"])
for number in range(56 * 400):
    shown_at = first + number * day // 400
    score = round(r.betavariate(0.5, 1.5), 3)
    like = 0.4 if number >= 35 * 400 else 0.9
    shown_rows.writerow([number, shown_at, score])
    if r.random() < like * score:
        when = r.random()
        waited = r.uniform(0, hour) if when < 1 / 3 else r.uniform(hour, day) if when < 1 / 2 else r.uniform(day, 7 * day)
        click_rows.writerow([number, int(shown_at + waited)])
shown.close()
clicks.close()
