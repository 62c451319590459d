def sum_even(nums):
    total = 0
    for x in nums:
        if x % 2 == 0:
            total += x
    return total
