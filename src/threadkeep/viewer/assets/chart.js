// The size of the window over a thread's life, drawn by uPlot from series.json.
"use strict";

(() => {
  const place = document.getElementById("chart");
  const axis = document.getElementById("axis");
  if (!place) return;
  let data = null;
  let plot = null;
  let byTime = false;
  let order = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (n) => n === null || n === undefined ? "" : n >= 1e6 ? `${+(n / 1e6).toFixed(1)}M` : n >= 1e3 ? `${+(n / 1e3).toFixed(1)}k` : `${n}`;

  function marks() {
    return {
      hooks: {
        draw: [(u) => {
          const { ctx, bbox } = u;
          ctx.save();
          ctx.lineWidth = devicePixelRatio;
          ctx.strokeStyle = colour("--mark");
          ctx.fillStyle = colour("--mark");
          ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
          ctx.textAlign = "center";
          let last = -Infinity;
          data.compactions.forEach(([ordinal, at_ms], index) => {
            const x = Math.round(u.valToPos(byTime ? at_ms / 1000 : ordinal, "x", true));
            if (x < bbox.left || x > bbox.left + bbox.width) return;
            ctx.globalAlpha = 0.75;
            ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
            ctx.globalAlpha = 1;
            if (x - last > 16 * devicePixelRatio) { ctx.fillText(String(index + 1), x, bbox.top - 4 * devicePixelRatio); last = x; }
          });
          ctx.strokeStyle = colour("--limit");
          ctx.fillStyle = colour("--limit");
          ctx.textAlign = "left";
          ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
          const named = [];
          for (const [name, value] of Object.entries(data.limits)) {
            const y = Math.round(u.valToPos(value, "y", true));
            if (y < bbox.top || y > bbox.top + bbox.height) continue;
            ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
            // The labels of close limits would overlap: hard is labelled below its line, and a label without room is left out.
            const at = name === "hard" ? y + 12 * devicePixelRatio : y - 3 * devicePixelRatio;
            if (named.some((other) => Math.abs(other - at) < 11 * devicePixelRatio)) continue;
            ctx.fillText(name, bbox.left + 4 * devicePixelRatio, at);
            named.push(at);
          }
          ctx.restore();
        }],
      },
    };
  }

  function tip() {
    const box = document.createElement("div");
    box.className = "tip";
    box.hidden = true;
    return {
      hooks: {
        init: [(u) => { u.over.append(box); u.over.addEventListener("mouseleave", () => { box.hidden = true; }); }],
        setCursor: [(u) => {
          const { idx, left, top } = u.cursor;
          if (idx === null || idx === undefined || left < 0) { box.hidden = true; return; }
          const at = order === null ? idx : order[idx];
          const lines = [`#${data.ordinals[at]}  ${new Date(data.at_ms[at]).toLocaleString()}`];
          for (const [name, column] of [["window", data.window], ["counted", data.counted], ["cached", data.cached]]) {
            if (column[at] !== null && column[at] !== undefined) lines.push(`${name}  ${column[at].toLocaleString()}`);
          }
          box.textContent = lines.join("\n");
          box.hidden = false;
          const right = left > u.over.clientWidth / 2;
          box.style.left = right ? "" : `${left + 12}px`;
          box.style.right = right ? `${u.over.clientWidth - left + 12}px` : "";
          box.style.top = `${Math.min(top, u.over.clientHeight - 70)}px`;
        }],
      },
    };
  }

  function options() {
    const ink = colour("--soft");
    const grid = { stroke: colour("--line"), width: 1 };
    const largest = Math.max(1, ...data.window.filter(Number.isFinite), ...data.counted.filter(Number.isFinite));
    // Limits far above the curve would flatten it; they are left out then.
    const shown = Object.values(data.limits).filter((limit) => limit < largest * 4);
    // The size stays the same until the next record.
    const paths = uPlot.paths.stepped({ align: 1 });
    const top = Math.max(largest, ...shown) * 1.08;
    return {
      width: place.clientWidth,
      height: 280,
      padding: [18, 22, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: true, y: false } },
      scales: { x: { time: byTime }, y: { range: [0, top] } },
      axes: [
        { stroke: ink, grid, ticks: grid, space: 80, values: byTime ? undefined : (_, all) => all.map((n) => `#${n}`) },
        { stroke: ink, grid, ticks: grid, size: 52, values: (_, all) => all.map(short) },
      ],
      series: [
        {},
        { label: "cached", fill: colour("--cached-line"), stroke: colour("--cached-line"), spanGaps: true, paths, points: { show: false } },
        { label: "counted", stroke: colour("--counted-line"), width: 1.5, spanGaps: true, paths, points: { show: false } },
        { label: "window", stroke: colour("--window-line"), width: 2, spanGaps: true, paths, points: { show: false } },
      ],
      plugins: [marks(), tip()],
    };
  }

  // Clocks may run backwards, so points are sorted when plotted by time.
  function columns() {
    order = null;
    if (!byTime) return [data.ordinals, data.cached, data.counted, data.window];
    order = data.at_ms.map((_, index) => index).sort((a, b) => data.at_ms[a] - data.at_ms[b] || a - b);
    const pick = (column) => order.map((index) => column[index]);
    return [pick(data.at_ms).map((ms) => ms / 1000), pick(data.cached), pick(data.counted), pick(data.window)];
  }

  function draw() {
    plot?.destroy();
    plot = null;
    if (data.ordinals.length < 2) { place.textContent = "There is nothing to plot yet."; return; }
    place.textContent = "";
    plot = new uPlot(options(), columns(), place);
    plot.over.addEventListener("click", open);
    place.dataset.drawn = String(data.upto);
  }

  // A click near a compaction opens it.
  function open() {
    const { left } = plot.cursor;
    let near = null;
    for (const [ordinal, at_ms] of data.compactions) {
      const away = Math.abs(plot.valToPos(byTime ? at_ms / 1000 : ordinal, "x") - left);
      if (away < 6 && (near === null || away < near.away)) near = { ordinal, away };
    }
    if (near) location.assign(`${place.dataset.compactions}/${near.ordinal}`);
  }

  async function load() {
    const response = await fetch(place.dataset.series);
    if (!response.ok) { place.textContent = "The figures cannot be loaded."; return; }
    data = await response.json();
    draw();
  }

  // At most one reload in two seconds: the figures of a long thread take a moment to compute.
  let timer = null;
  function reloadSoon() { timer ??= setTimeout(() => { timer = null; load(); }, 2000); }

  axis.addEventListener("click", () => { byTime = !byTime; axis.setAttribute("aria-pressed", String(byTime)); if (data) draw(); });
  document.addEventListener("written", reloadSoon);
  document.addEventListener("theme", () => { if (data) draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (data) draw(); });
  new ResizeObserver(() => { if (plot && place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height: 280 }); }).observe(place);
  load();
})();
