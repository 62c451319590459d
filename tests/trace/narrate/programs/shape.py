# shape([1, [2, 3], "x"])
def name(item):
    match item:
        case int():
            return "number"
        case [first, *_]:
            return f"list from {first}"
        case _:
            return "other"


def shape(items):
    return [name(item) for item in items]
