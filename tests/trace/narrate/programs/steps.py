# steps(5)
def steps(n):
    if n <= 1:
        return 1
    return steps(n - 1) + steps(n - 2)
