def make_counter(step):
    total = 0

    def bump():
        nonlocal total
        total += step
        return total

    return bump


def use(step, times):
    bump = make_counter(step)
    seen = []
    for _ in range(times):
        seen.append(bump())
    return seen
