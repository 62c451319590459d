"""Ways to make a true text false, one room for each sort. Start in `mutation`."""
