"""Small programs of every common shape for bench_tracer.py: each defines `main()`, with work for a millisecond or so."""

from __future__ import annotations

SIEVE = """
def main():
    flags = [True] * 400
    found = []
    for n in range(2, 400):
        if flags[n]:
            found.append(n)
            for m in range(n * n, 400, n):
                flags[m] = False
    return found
"""
COLLATZ = """
def steps(n):
    count = 0
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        count += 1
    return count
def main():
    return max(range(1, 40), key=steps)
"""
MEMO = """
def main():
    memo = {}
    def ways(n):
        if n < 2:
            return 1
        if n not in memo:
            memo[n] = ways(n - 1) + ways(n - 2)
        return memo[n]
    return ways(120)
"""
EDIT_DISTANCE = """
def main():
    a, b = "kitten sits on a mat", "sitting on the mat"
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) + 1):
        table[i][0] = i
    for j in range(len(b) + 1):
        table[0][j] = j
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            same = a[i - 1] == b[j - 1]
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (not same))
    return table[-1][-1]
"""
TREE = """
class Node:
    def __init__(self, key):
        self.key, self.left, self.right = key, None, None
    def insert(self, key):
        if key < self.key:
            if self.left is None:
                self.left = Node(key)
            else:
                self.left.insert(key)
        elif self.right is None:
            self.right = Node(key)
        else:
            self.right.insert(key)
    def keys(self):
        if self.left:
            yield from self.left.keys()
        yield self.key
        if self.right:
            yield from self.right.keys()
def main():
    root = Node(50)
    for i in range(60):
        root.insert(i * 37 % 101)
    return list(root.keys())
"""
SEARCH = """
from collections import deque
def main():
    walls = {(x, 3) for x in range(9)} | {(x, 7) for x in range(1, 10)}
    seen, queue = {(0, 0)}, deque([(0, 0, 0)])
    while queue:
        x, y, far = queue.popleft()
        if (x, y) == (9, 9):
            return far
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            place = x + dx, y + dy
            if 0 <= place[0] < 10 and 0 <= place[1] < 10 and place not in seen and place not in walls:
                seen.add(place)
                queue.append((*place, far + 1))
"""
HEAP = """
import heapq
def main():
    edges = {n: [((n * 7 + 1) % 30, 3), ((n * 5 + 2) % 30, 8)] for n in range(30)}
    best, heap = {0: 0}, [(0, 0)]
    while heap:
        far, node = heapq.heappop(heap)
        for other, cost in edges[node]:
            if far + cost < best.get(other, 10**9):
                best[other] = far + cost
                heapq.heappush(heap, (far + cost, other))
    return sorted(best.items())
"""
QUEENS = """
def main():
    solutions, columns = [], []
    def place(row):
        if row == 5:
            solutions.append(columns[:])
            return
        for c in range(5):
            if all(c != other and abs(c - other) != row - r for r, other in enumerate(columns)):
                columns.append(c)
                place(row + 1)
                columns.pop()
    place(0)
    return solutions
"""
WORDS = """
from collections import Counter, defaultdict
def main():
    text = "the quick brown fox jumps over the lazy dog and the quick cat " * 6
    counts, by_length = Counter(), defaultdict(list)
    for word in text.split():
        counts[word] += 1
        if word not in by_length[len(word)]:
            by_length[len(word)].append(word)
    return counts.most_common(3), dict(by_length)
"""
SORTING = """
def main():
    values = [(i * 73 + 11) % 97 for i in range(45)]
    for i in range(1, len(values)):
        value, j = values[i], i - 1
        while j >= 0 and values[j] > value:
            values[j + 1] = values[j]
            j -= 1
        values[j + 1] = value
    return values
"""
MATRIX = """
def main():
    a = [[(i * j) % 7 for j in range(9)] for i in range(9)]
    result = [[0] * 9 for _ in range(9)]
    for i in range(9):
        for j in range(9):
            total = 0
            for k in range(9):
                total += a[i][k] * a[k][j]
            result[i][j] = total
    return result
"""
PARSER = """
def main():
    text, position = "1+2*(3-4)*5-(6+7*8)+9*(1+(2-3)*4)" * 4 + "0"[:0], 0
    text = "+".join([text[:33]] * 6)
    def factor():
        nonlocal position
        if text[position] == "(":
            position += 1
            value = expression()
            position += 1
            return value
        value = int(text[position])
        position += 1
        return value
    def term():
        nonlocal position
        value = factor()
        while position < len(text) and text[position] == "*":
            position += 1
            value *= factor()
        return value
    def expression():
        nonlocal position
        value = term()
        while position < len(text) and text[position] in "+-":
            sign = text[position]
            position += 1
            value = value + term() if sign == "+" else value - term()
        return value
    return expression()
"""
ERRORS = """
def parse(word):
    try:
        return int(word)
    except ValueError:
        return None
def main():
    kept, wrong = [], 0
    for word in "1 x 22 y3 4 -5 six 7 8z 9".split() * 12:
        value = parse(word)
        if value is None:
            wrong += 1
            continue
        kept.append(value)
    return kept, wrong
"""
STACK_MACHINE = """
class Machine:
    def __init__(self):
        self.stack, self.counts = [], {"push": 0, "add": 0, "mul": 0}
    def push(self, value):
        self.counts["push"] += 1
        self.stack.append(value)
    def add(self):
        self.counts["add"] += 1
        self.stack.append(self.stack.pop() + self.stack.pop())
    def mul(self):
        self.counts["mul"] += 1
        self.stack.append(self.stack.pop() * self.stack.pop() % 1009)
def main():
    machine = Machine()
    machine.push(1)
    for i in range(60):
        machine.push(i)
        machine.add() if i % 3 else machine.mul()
    return machine.stack, machine.counts
"""

PROGRAMS = {
    name.lower(): source for name, source in list(globals().items()) if name.isupper() and isinstance(source, str)
}
