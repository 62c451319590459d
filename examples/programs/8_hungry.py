"""A program that takes all the memory it can get. It meets its limit, not the machine's."""

# %%
chunks = []
while True:
    chunks.append(bytearray(b"x") * (16 * 1024 * 1024))
    print(f"{len(chunks) * 16} MiB", end=" ", flush=True)
