# evens(3)
def countdown(n):
    while n > 0:
        yield n
        n -= 1


def evens(n):
    seen = [value for value in range(2 * n) if value % 2 == 0]
    total = 0
    for value in countdown(n):
        if value in seen:
            total += value
    words = {value: str(value) * 2 for value in seen}
    return total, words
