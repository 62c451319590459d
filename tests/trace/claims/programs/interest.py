def years_to_goal(balance, rate, goal):
    years = 0
    while balance < goal:
        balance = balance * (1 + rate)
        years += 1
        if years == 10:
            break
    return years, round(balance, 2)
