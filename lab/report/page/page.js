(() => {
  const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00"];
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const STROKES = ["", "8 3", "2 2", "8 3 2 3"];
  const TITLES = {loss: "training loss (nats/token)", grad_norm: "gradient norm"};
  const KEYS = Object.keys(TITLES);
  const POINTS = 20000; // of all lines of a chart together
  const of = id => document.getElementById(id);
  const variants = JSON.parse(of("curves").textContent).variants;
  const shown = variants.map(() => true);
  // Plotly reads a few tags, entities and templates in names: none of ours is one.
  const ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "%": "&#37;"};
  const plain = text => String(text).replace(/[&<>%]/g, mark => ENTITIES[mark]);
  const short = text => text.length > 40 ? text.slice(0, 39) + "…" : text;
  const colour = i => COLOURS[i % COLOURS.length];
  const look = i => Math.floor(i / COLOURS.length) % DASHES.length;
  const few = variants.length <= 12;
  const narrow = () => window.innerWidth < 600;

  // All seeds of a variant as one line with gaps between.
  function together(seeds, range, count) {
    const x = [], y = [], text = [];
    for (const seed of seeds) {
      const thin = Curves.thin(seed.at, range, count);
      x.push(...thin.x, null);
      y.push(...thin.y, null);
      for (let i = 0; i <= thin.x.length; i++) text.push("seed " + plain(seed.seed));
    }
    return {x, y, text};
  }

  function traces(key, range) {
    const found = [], seeds = of("seeds").checked;
    const lines = variants.reduce((n, v, i) => n + (shown[i] ? 1 + (seeds ? v[key].seeds.length : 0) : 0), 0);
    const count = Math.max(30, Math.min(500, Math.floor(POINTS / 2 / Math.max(1, lines))));
    variants.forEach((variant, i) => {
      const one = variant[key], mean = one.mean || (one.seeds.length ? one.seeds[0].at : null);
      if (!mean) return;
      const common = {type: "scatter", mode: "lines", legendgroup: String(i), meta: i, connectgaps: false,
        visible: shown[i] ? true : "legendonly"};
      const line = {color: colour(i), dash: DASHES[look(i)]};
      const name = plain(short(variant.name));
      if (seeds && shown[i] && one.seeds.length > 1) {
        found.push({...common, ...together(one.seeds, range, count), name, opacity: 0.5, showlegend: false,
          line: {...line, width: 0.8}, hovertemplate: "%{y:.4g}<extra>%{fullData.name}, %{text}</extra>"});
      }
      found.push({...common, ...(shown[i] ? Curves.thin(mean, range, count) : {x: [null], y: [null]}), name,
        line: {...line, width: 2}, showlegend: few && !narrow(), hovertemplate: "%{y:.4g}<extra>%{fullData.name}</extra>"});
    });
    return found;
  }

  function layout(key) {
    const axis = {gridcolor: "#e3e6eb", zeroline: false, linecolor: "#4d5562", ticks: "outside", automargin: true,
      ticklabeloverflow: "allow"};
    return {
      font: {family: "system-ui, sans-serif", size: 13, color: "#16181d"}, paper_bgcolor: "#fff", plot_bgcolor: "#fff",
      margin: {l: 58, r: 24, t: 12, b: 46}, hovermode: few && !of("seeds").checked ? "x unified" : "closest", dragmode: "zoom", uirevision: 1,
      hoverlabel: {bgcolor: "#fff", bordercolor: "#4d5562", font: {color: "#16181d"}},
      xaxis: {...axis, title: {text: "step", standoff: 8}}, legend: {orientation: "h", y: -0.16, x: 0},
      yaxis: {...axis, title: {text: TITLES[key], standoff: 8}, type: of("log").checked ? "log" : "linear",
        uirevision: of("log").checked},
    };
  }

  // The stretch of steps that a chart was zoomed to.
  function range(chart) {
    const axis = chart._fullLayout && chart._fullLayout.xaxis;
    return axis && !axis.autorange && axis.range ? axis.range.map(Number) : null;
  }

  function drawOne(key) {
    const chart = of("chart-" + key), first = !chart._fullLayout;
    Plotly.react(chart, traces(key, range(chart)), layout(key), {responsive: true, displaylogo: false,
      displayModeBar: narrow() ? false : "hover", modeBarButtonsToRemove: ["lasso2d", "select2d"], showTips: false});
    if (!first) return;
    chart.classList.remove("waiting");
    chart.on("plotly_relayout", event => {
      if (Object.keys(event).some(name => name.startsWith("xaxis."))) drawOne(key);
    });
    chart.on("plotly_legendclick", event => {
      const i = event.data[event.curveNumber].meta;
      show(i, !shown[i]);
      draw();
      return false;
    });
    chart.on("plotly_legenddoubleclick", () => false);
  }

  // Reading comes first: the library waits until the page is there, and a chart until it is nearly in sight.
  const waiting = new Set(KEYS);
  function begin(key) {
    if (!waiting.delete(key)) return;
    if (!window.Plotly) {
      const script = document.createElement("script");
      script.textContent = of("plotly").textContent;
      document.head.append(script);
      script.remove();
    }
    drawOne(key);
    performance.mark("drawn-" + key);
    document.documentElement.dataset.drawn = KEYS.filter(name => !waiting.has(name)).join(" ");
  }
  function ready() { KEYS.forEach(begin); }
  function draw() { KEYS.forEach(key => waiting.has(key) ? begin(key) : drawOne(key)); }

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
    ready();
    for (const key of KEYS) Plotly.relayout(of("chart-" + key), {"xaxis.autorange": true, "yaxis.autorange": true});
  });
  of("save").addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob(Curves.csv(variants, KEYS), {type: "text/csv;charset=utf-8"}));
    const link = Object.assign(document.createElement("a"), {href: address, download: "curves.csv"});
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  });

  let opened = [];
  window.addEventListener("beforeprint", () => {
    ready();
    opened = [...document.querySelectorAll("details:not([open]):not(.batch)")];
    opened.forEach(one => { one.open = true; });
    for (const key of KEYS) Plotly.relayout(of("chart-" + key), {width: 660, height: 360});
  });
  window.addEventListener("afterprint", () => {
    opened.forEach(one => { one.open = false; });
    for (const key of KEYS) Plotly.relayout(of("chart-" + key), {width: null, height: null, autosize: true});
  });
  const watch = new IntersectionObserver(seen => {
    for (const one of seen) if (one.isIntersecting) setTimeout(() => begin(one.target.id.slice("chart-".length)));
  }, {rootMargin: "800px 0px"});
  for (const key of KEYS) watch.observe(of("chart-" + key));
  // Who reads on finds the first chart drawn.
  requestAnimationFrame(() => setTimeout(() => begin(KEYS[0])));
})();
