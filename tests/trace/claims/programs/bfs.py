from collections import deque


def distance(graph, start, goal):
    queue = deque([(start, 0)])
    seen = {start}
    while queue:
        node, steps = queue.popleft()
        if node == goal:
            return steps
        for other in graph[node]:
            if other not in seen:
                seen.add(other)
                queue.append((other, steps + 1))
    return None
