def smallest_factor(n):
    d = 2
    while d * d <= n:
        if n % d == 0:
            return d
        d += 1
    return n


def is_prime(n):
    if n < 2:
        return False
    return smallest_factor(n) == n
