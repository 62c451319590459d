# totals([4, 7, 2, 9])
LIMIT = 5


def totals(numbers):
    small = 0
    large = []
    for number in numbers:
        if number > LIMIT:
            large.append(number)
        else:
            small += number
    return small, large
