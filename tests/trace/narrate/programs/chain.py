# chain([3, 1])
class Node:
    def __init__(self, value):
        self.value = value
        self.next = None


def chain(values):
    head = None
    for value in values:
        node = Node(value)
        node.next = head
        head = node
    total = 0
    while head:
        total += head.value
        head = head.next
    return total
