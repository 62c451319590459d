#
names = ["Ann", "Bo"]
for name in names:
    if len(name) > 2:
        print("Hello,", name)
count = len(names)
print(count)
