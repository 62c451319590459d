"""Heat spreading through a plate, computed step by step and drawn as three pictures of one figure."""

# %%
import matplotlib.pyplot as plt
import numpy as np

plate = np.zeros((60, 60))
plate[0, :] = 100.0
plate[25:35, 25:35] = 60.0
stages = {0: plate.copy()}
for step in range(1, 401):
    inner = plate[1:-1, 1:-1]
    around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
    plate[1:-1, 1:-1] = inner + 0.2 * (around - 4 * inner)
    if step in (40, 400):
        stages[step] = plate.copy()

figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for axis, (step, state) in zip(axes, stages.items(), strict=True):
    shown = axis.imshow(state, cmap="inferno", vmin=0, vmax=100)
    axis.set(title=f"after {step} steps", xticks=[], yticks=[])
figure.colorbar(shown, ax=axes, label="degrees")
plt.show()
print(f"mean temperature at the end: {plate.mean():.2f}")
