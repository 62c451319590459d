def best_run(nums):
    best = current = nums[0]
    for x in nums[1:]:
        current = max(x, current + x)
        if current > best:
            best = current
    return best
