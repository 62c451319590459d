"""A loop that never ends: what it printed until its time was over is kept, and so are its variables."""

# %%
n, steps = 27, 0
while True:
    n = n // 2 if n % 2 == 0 else 3 * n + 1
    steps += 1
    if steps in (1, 10, 100, 1000):
        print(f"after {steps} steps: {n}")

# %%
f"the variables are still there: steps > 1000 is {steps > 1000}"
