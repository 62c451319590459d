# guarded(["4", "x", "0"])
def inverse(text):
    number = int(text)
    if number == 0:
        raise ValueError("zero")
    return 12 // number


def guarded(texts):
    good, bad = [], 0
    for text in texts:
        try:
            good.append(inverse(text))
        except ValueError:
            bad += 1
    return good, bad
