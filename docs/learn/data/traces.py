"""Write 10,000 traces with MLflow's assessments: a judge's of each, and people's of one in twenty."""

import json
import random
from datetime import datetime, timedelta, timezone

r, start = random.Random(5), datetime(2026, 3, 2, tzinfo=timezone.utc)


def assessment(trace, kind, source, value, time, **more):
    return {
        "assessment_id": f"{source}-{trace}", "assessment_name": "correctness", "trace_id": f"tr-{trace}",
        "source": {"source_type": kind, "source_id": source}, "feedback": {"value": value},
        "create_time": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "valid": True, **more,
    }  # fmt: skip


with open("traces.jsonl", "w") as file:
    for number in range(10_000):
        time, right = start + timedelta(minutes=4 * number), r.random() < 0.7
        found = [assessment(number, "LLM_JUDGE", "judge", right if r.random() < 0.85 else not right, time)]
        if number % 20 == 0:
            reviewed, wrong = time + timedelta(hours=30), r.random() < 0.1
            found.append(assessment(number, "HUMAN", "anna", right != wrong, reviewed, valid=not wrong))
            if wrong:                                 # a second person overrides the first
                later = {"overrides": f"anna-{number}"}
                found.append(assessment(number, "HUMAN", "bob", right, reviewed + timedelta(days=2), **later))
        file.write(json.dumps({"info": {"trace_id": f"tr-{number}", "assessments": found}}) + "\n")
