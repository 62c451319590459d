// Processor and memory of one sandbox over the last two minutes, drawn by uPlot.

const KEPT_S = 120;

/** Samples of all sandboxes, from which shares of a processor follow. */
export class Samples {
  constructor() {
    this.bySandbox = new Map();
  }

  /** Take what `/v1/sandboxes` tells of all of them at one moment. */
  take(sandboxes) {
    const now = Date.now() / 1000;
    const there = new Set(sandboxes.map(({sandbox_id: id}) => id));
    for (const id of this.bySandbox.keys()) if (!there.has(id)) this.bySandbox.delete(id);
    for (const {sandbox_id: id, load} of sandboxes) {
      const samples = this.bySandbox.get(id) ?? [];
      const before = samples.at(-1);
      const spent = load && before && load.cpu_s >= before.cpuS ? load.cpu_s - before.cpuS : 0;
      const cpu = before ? (100 * spent) / Math.max(now - before.at, 0.1) : 0;
      samples.push({at: now, cpuS: load?.cpu_s ?? 0, cpu, memory: load?.memory_bytes ?? 0, processes: load?.process_count ?? 0});
      this.bySandbox.set(id, samples.filter(({at}) => at > now - KEPT_S));
    }
  }

  of(id) {
    return this.bySandbox.get(id) ?? [];
  }
}

/** A drawing inside `holder`. */
export class Curves {
  constructor(holder) {
    this.holder = holder;
  }

  draw(samples) {
    if (typeof uPlot === "undefined" || !this.holder.clientWidth) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const key = `${document.documentElement.dataset.theme} ${this.holder.clientWidth}`;
    const data = [
      samples.map(({at}) => at), samples.map(({cpu}) => cpu), samples.map(({memory}) => memory / 2 ** 20),
    ];
    if (this.key !== key) {
      this.plot?.destroy();
      this.key = key;
      this.plot = new uPlot({
        width: this.holder.clientWidth,
        height: 56,
        legend: {show: false},
        cursor: {show: false},
        padding: [4, 0, 4, 0],
        scales: {
          x: {range: () => [Date.now() / 1000 - KEPT_S, Date.now() / 1000]},
          cpu: {range: (plot, least, most) => [0, Math.max(100, most ?? 0)]},
          memory: {range: (plot, least, most) => [0, Math.max(16, (most ?? 0) * 1.2)]},
        },
        axes: [{show: false}, {show: false}],
        series: [
          {},
          {scale: "cpu", stroke: colour("--gb-cpu"), width: 1.5, points: {show: false}},
          {scale: "memory", stroke: colour("--gb-memory"), width: 1.5, points: {show: false}},
        ],
      }, data, this.holder);
    } else {
      this.plot.setData(data);
    }
  }
}
