# shared()
def grow(row, item):
    row.append(item)


def shared():
    first = [1]
    second = first
    grow(second, 2)
    table = {"row": first}
    table["row"][0] = 5
    del table["row"]
    return first
