# What is in the file? Before any program reads it, a look at it.
head -3 orders.csv
echo "lines without a quantity: $(cut -d, -f5 orders.csv | grep -c '^$')"
cut -d, -f4 orders.csv | tail -n +2 | sort | uniq -c | sort -rn
