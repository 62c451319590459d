# table(3)
def table(size):
    rows = []
    for row in range(size):
        line = []
        for column in range(size):
            line.append(row * column)
        rows.append(line)
    return rows
