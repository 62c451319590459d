// Which goods are bought together most often? As a graph in DOT, for the next cell.
const fs = require('fs');
const baskets = new Map();
for (const line of fs.readFileSync('orders.csv', 'utf8').trim().split('\n').slice(1)) {
  const [order, , , item] = line.split(',');
  baskets.set(order, [...(baskets.get(order) ?? []), item]);
}
const pairs = {};
for (const items of baskets.values())
  for (const one of items)
    for (const other of items)
      if (one < other) pairs[`${one} ${other}`] = (pairs[`${one} ${other}`] ?? 0) + 1;
const often = Object.entries(pairs).sort((a, b) => b[1] - a[1]).slice(0, 7);
const edges = often.map(([pair, count]) => {
  const [one, other] = pair.split(' ');
  return `  ${one} -- ${other} [label=${count}, penwidth=${(1 + 5 * count / often[0][1]).toFixed(1)}]`;
});
fs.writeFileSync('together.dot', `graph together {\n  rankdir=LR\n  node [shape=box, style=rounded]\n${edges.join('\n')}\n}\n`);
often.slice(0, 3);
