def evens(limit):
    n = 0
    while n < limit:
        yield n
        n += 2


def collect(limit):
    squares = []
    for value in evens(limit):
        squares.append(value * value)
    return sum(squares)
