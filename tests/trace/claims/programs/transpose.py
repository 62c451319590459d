def transpose(rows):
    result = []
    for col in range(len(rows[0])):
        line = []
        for row in rows:
            line.append(row[col])
        result.append(line)
    return result
