# fails({"a": 1})
def fails(record):
    assert record, "empty"
    return record["b"]
