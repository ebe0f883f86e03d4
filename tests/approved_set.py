"""Reads cognition_log.json files and prints where each extraction stands: docs/review.md, "Reading the files yourself"."""
import json
import pathlib
import sys

WORDS = {"approve": "approved", "edit": "edited", "discard": "discarded", "withdraw": "pending"}
PAST = {"approved": "approve", "edited": "edit", "discarded": "discard", "withdrawn": "withdraw"}


def read(log):
    pendings, reviews, committed = {}, {}, set()
    number = 0
    for event in log["events"]:
        kind = event["type"]
        event = {**event, **event.get("cognilog", {})}
        if kind == "extraction_pending":
            number += 1
            name = event.get("extraction_id") or f"ext-{log['trace_id']}-{number}"
            pendings.setdefault(name, event.get("item", event)["content"])
        elif kind == "extraction_reviewed" and event["extraction_id"] not in committed:
            reviews.setdefault(event["extraction_id"], []).append(event)
        elif kind == "extraction_committed":
            for item in event.get("items", [event]):
                word = item.get("outcome", "failed" if item.get("error") else "saved")
                if word in ("saved", "skipped", "success", "committed"):
                    committed.add(item["extraction_id"])
    return {name: stand(text, reviews.get(name, []), name in committed) for name, text in pendings.items()}


def stand(text, reviews, is_committed):
    standing, state = [], "pending"
    for version, event in enumerate(reviews, 1):
        if standing and event.get("undoes") == standing[-1][0]:
            standing.pop()
        else:
            standing.append((version, event))
    for _, event in standing:
        word = PAST.get(event["decision"], event["decision"])
        if word == "discard" and event.get("reason") == "withdrawn":
            word = "withdraw"
        if word == "edit":
            text = event["edited"].get("content", text)
        state = WORDS[word]
    return ["committed" if is_committed else state, text]


files = sorted(pathlib.Path(sys.argv[1]).glob("*.json"))
print(json.dumps([read(json.loads(file.read_text(encoding="utf-8"))) for file in files]))
