def ratios(pairs):
    results = []
    failures = 0
    for top, bottom in pairs:
        try:
            value = top / bottom
        except ZeroDivisionError:
            failures += 1
            value = None
        results.append(value)
    return {"results": results, "failures": failures}
