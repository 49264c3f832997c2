"""The face to Python: `complete` a knowledge base; `train` a model, `open` one that was saved, and ask it.

    kbdisk.complete("phones.jsonl", "completed.jsonl")
    model = kbdisk.train("phones.jsonl", budget="2m", out="phones.kbdisk")
    for completion in model.complete("phones.jsonl"): ...
    model.belief(entity, "weight").interval(0.9)

Every knowledge base may be a path, a list of dicts or of entities, a pandas frame, an rdflib graph, a KB, or a list of
several of these. Importing this package alone loads none of its modules, as torch comes with most of them.
"""
