// What pages do besides links and forms: ask for what is new, draw charts, open dialogs, and keep the colours chosen.
(() => {
  "use strict";

  const root = document.documentElement;
  const page = document.querySelector("[data-live]");
  const interval = Math.max(500, Number(document.body.dataset.refresh) || 3000);

  // --- colours ------------------------------------------------------------------------------------------------------

  const theme = document.getElementById("theme");
  theme.value = root.dataset.theme;
  theme.hidden = false;
  theme.addEventListener("change", () => {
    root.dataset.theme = theme.value;
    try {
      localStorage.setItem("headrace-theme", theme.value);
    } catch {
      // It holds for this page alone then.
    }
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());

  // Graphs that are wider than a telephone begin with their middle.
  for (const graph of document.querySelectorAll(".scroll.graph")) {
    graph.scrollLeft = (graph.scrollWidth - graph.clientWidth) / 2;
  }

  // --- what is new --------------------------------------------------------------------------------------------------

  const pause = document.getElementById("pause");
  const stale = document.getElementById("stale");
  let paused = false;
  let asking = false;
  let heard = Date.now();
  let opened = new Set();
  let focused = "";

  function refresh() {
    if (!page || paused || asking || document.hidden || document.getElementById("dialog").open) return;
    asking = true;
    htmx.ajax("GET", page.dataset.live, { source: page, swap: "none" }).finally(() => {
      asking = false;
    });
  }

  function lost(why) {
    const since = new Date(heard).toLocaleTimeString();
    stale.textContent = `${why} This page shows what was known at ${since}; it goes on when there is an answer.`;
    stale.hidden = false;
  }

  if (page) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      pause.querySelector(".label").textContent = paused ? "Paused" : "Live";
      refresh();
    });
    setInterval(refresh, interval);
    document.addEventListener("visibilitychange", refresh);
    document.addEventListener("htmx:sendError", () => lost("The server does not answer: the job's process may have ended."));
    document.addEventListener("htmx:timeout", () => lost("The server does not answer in time."));
    document.addEventListener("htmx:beforeSwap", (event) => {
      if (event.detail.elt !== page) return;
      if (event.detail.xhr.status >= 400) {
        event.detail.shouldSwap = false;
        lost(`The server answers with ${event.detail.xhr.status}.`);
        return;
      }
      heard = Date.now();
      stale.hidden = true;
      focused = document.activeElement?.id ?? "";
      opened = new Set([...document.querySelectorAll("details[open][id]")].map((each) => each.id));
    });
    document.addEventListener("htmx:oobBeforeSwap", (event) => {
      // What is as it was stays: selected text, the focus, and buttons that are just being pressed.
      const made = event.detail.fragment.firstElementChild;
      if (made && made.innerHTML === event.detail.target.innerHTML) event.detail.shouldSwap = false;
    });
    document.addEventListener("htmx:oobAfterSwap", () => {
      // What had the focus has just been replaced by what is new.
      if (focused && document.activeElement === document.body) document.getElementById(focused)?.focus({ preventScroll: true });
    });
    document.addEventListener("htmx:afterSettle", () => {
      for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
      redraw();
    });
  }
  // --- dialogs ------------------------------------------------------------------------------------------------------

  const dialog = document.getElementById("dialog");
  const body = document.getElementById("dialog-body");
  let opener = "";
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target !== body) return;
    if (!dialog.open) {
      opener = event.detail.requestConfig?.elt?.id ?? "";
      dialog.showModal();
    }
    body.querySelector("input:not([type=hidden]), button[type=submit], a[data-close]")?.focus();
  });
  document.addEventListener("keydown", (event) => {
    // Buttons that are links without scripts act as buttons with them.
    if (event.key === " " && event.target.matches?.("a[role=button]")) {
      event.preventDefault();
      event.target.click();
    }
  });
  document.addEventListener("click", (event) => {
    if (dialog.open && event.target.closest("[data-close]")) {
      event.preventDefault();
      dialog.close();
    }
  });
  dialog.addEventListener("close", () => {
    body.replaceChildren();
    document.getElementById(opener)?.focus({ preventScroll: true }); // the button may be another one by now
    refresh();
  });

  // --- charts -------------------------------------------------------------------------------------------------------

  const charts = new Map();
  const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

  function colour(name) {
    return getComputedStyle(root).getPropertyValue(name).trim();
  }

  function palette() {
    return ["operators", "checkpoint", "commit", "shuffle", "read", "plan"].map((part) => colour(`--part-${part}`));
  }

  const UNITS = {
    "records/s": (value) => `${short(value)}/s`,
    records: short,
    s: span,
    B: size,
  };

  function short(value) {
    for (const [limit, unit] of [[1e9, " G"], [1e6, " M"], [1e4, " k"]]) {
      if (Math.abs(value) >= limit) return `${trimmed(value / (limit === 1e4 ? 1e3 : limit))}${unit}`;
    }
    return Math.abs(value) < 10 && value % 1 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
  }

  function trimmed(value) {
    return Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Math.round(value * 10) / 10);
  }

  function span(value) {
    const amount = Math.abs(value);
    if (amount >= 172800) return `${trimmed(value / 86400)} d`;
    if (amount >= 7200) return `${trimmed(value / 3600)} h`;
    if (amount >= 120) return `${trimmed(value / 60)} min`;
    return amount >= 1 || !amount ? `${trimmed(value)} s` : `${Math.round(value * 1000)} ms`;
  }

  function size(value) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit < units.length - 1) {
      value /= 1024;
      unit += 1;
    }
    return `${unit ? trimmed(value) : Math.round(value)} ${units[unit]}`;
  }

  const BINARY = Array.from({ length: 46 }, (_, power) => 2 ** power);

  function clock(time, step) {
    const text = new Date(time * 1000).toISOString();
    if (step >= 86400) return text.slice(5, 10);
    return step >= 60 ? text.slice(11, 16) : text.slice(11, 19);
  }

  function last(values) {
    return values.findLast((value) => value !== null && value !== undefined);
  }

  function lines(trend, id) {
    const one = (name, values) => [{ name, values }];
    switch (id) {
      case "rate": return one("records read", trend.rate);
      case "pending": return one("waiting", trend.pending);
      case "losses": return [...one("late", trend.late), ...one("set aside", trend.rejected)];
      default: return trend[id];
    }
  }

  function draw(figure, trend) {
    const id = figure.dataset.chart;
    const found = lines(trend, id);
    const plot = figure.querySelector(".plot");
    const times = trend.times.map((time) => time / 1000);
    const empty = times.length < 2 || !found.some((line) => line.values.some((value) => value !== null));
    figure.querySelector(".no-data").hidden = !empty;
    plot.hidden = empty;
    const names = found.map((line) => line.name).join("\n");
    const known = charts.get(id);
    if (empty || known?.names !== names || known.theme !== colour("--page")) {
      known?.chart.destroy();
      charts.delete(id);
    }
    if (empty) return;
    const data = [times, ...found.map((line) => line.values)];
    if (charts.has(id)) {
      charts.get(id).chart.setData(data);
    } else {
      const chart = new uPlot(options(figure, found), data, plot);
      charts.set(id, { chart, names, theme: colour("--page") });
    }
  }

  function options(figure, found) {
    const unit = UNITS[figure.dataset.unit];
    const colours = palette();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1, size: 4 }, font: "12px system-ui, sans-serif" };
    return {
      width: width(figure),
      height: Number(figure.dataset.height),
      cursor: { points: { size: 6 }, drag: { x: true, y: false } },
      legend: { live: true },
      tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "Etc/UTC"),
      axes: [
        { ...axis, space: 80, values: (_, splits, __, ___, step) => splits.map((time) => clock(time, step)) },
        {
          ...axis,
          size: 64,
          space: 34,
          ...(figure.dataset.unit === "B" ? { incrs: BINARY } : {}),
          values: (_, splits) => splits.map((value) => (value === null ? "" : unit(value))),
        },
      ],
      scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1] } },
      series: [
        { label: "", value: (_, time) => (time === null || time === undefined ? "now" : clock(time, 1)) },
        ...found.map((line, number) => ({
          label: line.name,
          stroke: colours[number % colours.length],
          fill: found.length === 1 ? `color-mix(in srgb, ${colours[0]} 12%, transparent)` : undefined,
          dash: DASHES[Math.floor(number / colours.length) % DASHES.length],
          width: 1.75,
          spanGaps: true,
          points: { show: false },
          value: (chart, value, series, index) => {
            const shown = index === null || index === undefined ? last(chart.data[series]) : value;
            return shown === null || shown === undefined ? "–" : unit(shown);
          },
        })),
      ],
    };
  }

  function width(figure) {
    return Math.max(200, Math.floor(figure.getBoundingClientRect().width));
  }

  function redraw() {
    const source = document.getElementById("trend");
    if (!source) return;
    const trend = JSON.parse(source.textContent);
    for (const figure of document.querySelectorAll("[data-chart]")) draw(figure, trend);
  }

  new ResizeObserver(() => {
    for (const figure of document.querySelectorAll("[data-chart]")) {
      const known = charts.get(figure.dataset.chart);
      if (known && known.chart.width !== width(figure)) known.chart.setSize({ width: width(figure), height: known.chart.height });
    }
  }).observe(document.getElementById("main"));
  redraw();
})();
