def count_words(text):
    counts = {}
    for word in text.split():
        if word in counts:
            counts[word] += 1
        else:
            counts[word] = 1
    best = max(counts, key=counts.get)
    return best, counts[best]
