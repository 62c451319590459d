PAIRS = {")": "(", "]": "["}


def balanced(text):
    stack = []
    for char in text:
        if char in PAIRS:
            if not stack or stack.pop() != PAIRS[char]:
                return False
        else:
            stack.append(char)
    return not stack
