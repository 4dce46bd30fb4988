"use strict";
(() => {
  const variants = JSON.parse(document.getElementById("curves").textContent);
  const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00"];
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const STROKES = ["", "8 3", "2 2", "8 3 2 3"];
  const KEYS = {loss: "training loss (nats/token)", grad_norm: "gradient norm"};
  const shown = variants.map(() => true);
  const of = id => document.getElementById(id);
  // Plotly reads a few tags and entities in names: none of ours is one.
  const plain = text => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = text => text.length > 40 ? text.slice(0, 39) + "…" : text;
  const colour = i => COLOURS[i % COLOURS.length];
  const look = i => Math.floor(i / COLOURS.length) % DASHES.length;
  const few = variants.length <= 12;
  const narrow = () => window.innerWidth < 600;

  function traces(key) {
    const found = [];
    variants.forEach((variant, i) => {
      const one = variant[key];
      const common = {type: "scatter", mode: "lines", legendgroup: String(i), meta: i, connectgaps: false,
        visible: shown[i] ? true : "legendonly"};
      if (one.mean) {
        found.push({...common, x: one.mean[0], y: one.mean[1], name: plain(short(variant.name)),
          line: {color: colour(i), dash: DASHES[look(i)], width: 2}, showlegend: few && !narrow(),
          hovertemplate: "%{y:.4g}<extra>" + plain(short(variant.name)) + "</extra>"});
      }
      if (of("seeds").checked && shown[i]) {
        for (const seed of one.seeds) {
          found.push({...common, x: seed.at[0], y: seed.at[1], opacity: 0.5, showlegend: false,
            line: {color: colour(i), dash: DASHES[look(i)], width: 0.8},
            hovertemplate: "%{y:.4g}<extra>" + plain(short(variant.name) + ", seed " + seed.seed) + "</extra>"});
        }
      }
    });
    return found;
  }

  function layout(key, old) {
    const axis = {gridcolor: "#e3e6eb", zeroline: false, linecolor: "#4d5562", ticks: "outside", automargin: true};
    const made = {
      font: {family: "system-ui, sans-serif", size: 13, color: "#16181d"}, paper_bgcolor: "#fff", plot_bgcolor: "#fff",
      margin: {l: 58, r: 12, t: 12, b: 46}, hovermode: few ? "x unified" : "closest", dragmode: "zoom",
      hoverlabel: {bgcolor: "#fff", bordercolor: "#4d5562", font: {color: "#16181d"}},
      xaxis: {...axis, title: {text: "step"}}, legend: {orientation: "h", y: -0.2, x: 0},
      yaxis: {...axis, title: {text: KEYS[key]}, type: of("log").checked ? "log" : "linear"},
    };
    if (old && old.xaxis && old.xaxis.range && !old.xaxis.autorange) {
      made.xaxis.range = old.xaxis.range.slice();
      made.xaxis.autorange = false;
    }
    return made;
  }

  function draw() {
    for (const key of Object.keys(KEYS)) {
      const chart = of("chart-" + key);
      Plotly.react(chart, traces(key), layout(key, chart._fullLayout), {responsive: true, displaylogo: false,
        displayModeBar: narrow() ? false : "hover", modeBarButtonsToRemove: ["lasso2d", "select2d"], showTips: false});
    }
  }

  function show(i, on) {
    shown[i] = on;
    of("variant-" + i).checked = on;
  }

  variants.forEach((variant, i) => {
    const label = document.createElement("label");
    const box = Object.assign(document.createElement("input"), {type: "checkbox", id: "variant-" + i, checked: true});
    box.addEventListener("change", () => { show(i, box.checked); draw(); });
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "swatch");
    svg.setAttribute("aria-hidden", "true");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [name, value] of Object.entries({x1: 0, x2: 26, y1: 4, y2: 4, stroke: colour(i), "stroke-width": 3,
      "stroke-dasharray": STROKES[look(i)]})) line.setAttribute(name, value);
    svg.append(line);
    label.append(box, svg, document.createTextNode(variant.name + " (n = " + variant.n + ")"));
    of("boxes").append(label);
  });
  const all = on => { variants.forEach((_, i) => show(i, on)); draw(); };
  of("all").addEventListener("click", () => all(true));
  of("none").addEventListener("click", () => all(false));
  of("seeds").addEventListener("change", draw);
  of("log").addEventListener("change", draw);
  of("reset").addEventListener("click", () => {
    for (const key of Object.keys(KEYS)) Plotly.relayout(of("chart-" + key), {"xaxis.autorange": true, "yaxis.autorange": true});
  });
  draw();
  for (const key of Object.keys(KEYS)) {
    of("chart-" + key).on("plotly_legendclick", event => {
      const i = event.data[event.curveNumber].meta;
      show(i, !shown[i]);
      draw();
      return false;
    });
    of("chart-" + key).on("plotly_legenddoubleclick", () => false);
  }
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach(one => { one.open = true; });
    for (const key of Object.keys(KEYS)) Plotly.relayout(of("chart-" + key), {width: 660, height: 380});
  });
  window.addEventListener("afterprint", () => {
    opened.forEach(one => { one.open = false; });
    for (const key of Object.keys(KEYS)) Plotly.relayout(of("chart-" + key), {width: null, height: null, autosize: true});
  });
  document.documentElement.dataset.drawn = "yes";
})();
