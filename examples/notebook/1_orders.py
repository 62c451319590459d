"""A year of orders of a small shop, made up from a seed: 6,000 lines, some without a quantity, as real ones are."""

import csv
import datetime
import random

chance = random.Random(11)
GOODS = {"tea": 4.5, "coffee": 7.9, "kettle": 39.0, "mug": 8.5, "filter": 3.2, "honey": 6.4}
WITH = {"coffee": "filter", "tea": "honey", "kettle": "tea"}
REGIONS = ["north", "south", "east", "west"]
begin = datetime.date(2025, 1, 1)

with open("orders.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["order", "day", "region", "item", "quantity", "price"])
    line = order = 0
    while line < 6000:
        order += 1
        day = begin + datetime.timedelta(days=min(364, int(chance.betavariate(2.2, 1.6) * 365)))
        region = chance.choices(REGIONS, [5, 3, 2, 2])[0]
        basket = set(chance.sample(list(GOODS), chance.choice([1, 1, 2, 3])))
        basket |= {WITH[item] for item in sorted(basket & WITH.keys()) if chance.random() < 0.5}
        for item in sorted(basket):
            quantity = "" if chance.random() < 0.01 else chance.randint(1, 4)
            table.writerow([order, day, region, item, quantity, GOODS[item]])
            line += 1
print(line, "lines of", order, "orders")
