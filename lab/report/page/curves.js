"use strict";
// Packed curves to what a chart draws: unpacked when first looked at, thinned to what a screen can show.
const Curves = (() => {
  function buffer(text) {
    const read = atob(text), bytes = new Uint8Array(read.length);
    for (let i = 0; i < read.length; i++) bytes[i] = read.charCodeAt(i);
    return bytes.buffer;
  }

  // Steps and values of a packed curve; the packed text is let go.
  function unpack(curve) {
    if (!curve.y) {
      curve.y = new Float32Array(buffer(curve.values));
      curve.x = curve.steps === null ? Int32Array.from(curve.y, (_, i) => curve.first + i)
        : new Int32Array(buffer(curve.steps));
      curve.steps = curve.values = null;
    }
    return curve;
  }

  // The first index whose step is at least this.
  function from(x, step) {
    let low = 0, high = x.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (x[middle] < step) low = middle + 1; else high = middle;
    }
    return low;
  }

  // Of each of some stretches the least value, the largest and the first gap, in the order of steps.
  function stretches(curve, begin, end, count, found) {
    if (end - begin <= 2 * count) {
      for (let i = begin; i < end; i++) found.push(i);
      return;
    }
    for (let n = 0; n < count; n++) {
      const start = begin + Math.floor((end - begin) * n / count), stop = begin + Math.floor((end - begin) * (n + 1) / count);
      let least = -1, most = -1, gap = -1;
      for (let i = start; i < stop; i++) {
        const y = curve.y[i];
        if (!Number.isFinite(y)) { if (gap < 0) gap = i; continue; }
        if (least < 0 || y < curve.y[least]) least = i;
        if (most < 0 || y > curve.y[most]) most = i;
      }
      const kept = [...new Set([least, most, gap])].filter(i => i >= 0).sort((a, b) => a - b);
      found.push(...kept);
    }
  }

  // Few points of a curve from which no spike is missing: many between the two steps, some outside.
  function thin(packed, range, count) {
    const curve = unpack(packed), n = curve.x.length, index = [];
    const begin = range ? Math.max(0, from(curve.x, range[0]) - 1) : 0;
    const end = range ? Math.max(begin, Math.min(n, from(curve.x, range[1]) + 1)) : n;
    if (n) index.push(0);
    stretches(curve, 0, begin, Math.ceil(count / 8), index);
    stretches(curve, begin, end, count, index);
    stretches(curve, end, n, Math.ceil(count / 8), index);
    if (n) index.push(n - 1);
    const kept = index.filter((i, k) => k === 0 || i > index[k - 1]);
    return {x: kept.map(i => curve.x[i]), y: kept.map(i => Number.isFinite(curve.y[i]) ? curve.y[i] : null)};
  }

  const cell = value => /[",\n\r]/.test(value) ? '"' + value.replace(/"/g, '""') + '"' : value;
  const number = value => Number.isFinite(value) ? String(Number(value.toPrecision(7))) : "";

  // Every value that the page holds, a line a step.
  function csv(variants, keys) {
    const parts = ["variant,run,seed,series,step,value\n"];
    for (const variant of variants) for (const key of keys) for (const seed of variant[key].seeds) {
      const curve = unpack(seed.at), head = [variant.name, seed.run, seed.seed].map(v => cell(String(v))).join(",");
      const lines = [];
      for (let i = 0; i < curve.x.length; i++) lines.push(head + "," + key + "," + curve.x[i] + "," + number(curve.y[i]));
      if (lines.length) parts.push(lines.join("\n") + "\n");
    }
    return parts;
  }

  return {thin, csv};
})();
