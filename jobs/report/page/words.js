"use strict";
// Numbers as people read them; the same rules as jobs/report/wording.py.
const MISSING = "–";

function digits(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return MISSING;
  const size = Math.abs(value);
  if (size >= 1e6) return `${digits(value / 1e6)} million`;
  const decimals = size >= 99.95 || size === 0 ? 0 : Math.min(Math.max(2 - Math.floor(Math.log10(size)), 0), 4);
  const text = value.toLocaleString("en-US", { maximumFractionDigits: decimals, minimumFractionDigits: 0 });
  return text === "-0" ? "0" : text;
}

function percent(fraction) {
  if (fraction === null || fraction === undefined || Number.isNaN(fraction)) return MISSING;
  const size = Math.abs(100 * fraction);
  if (size > 0 && size < 0.05) return fraction < 0 ? "> -0.1 %" : "< 0.1 %";
  return `${(100 * fraction).toFixed(size >= 99.95 || size === 0 ? 0 : 1)} %`;
}

function counted(number, one) {
  return `${digits(number)} ${one}${number === 1 ? "" : "s"}`;
}

function share(part, whole) {
  return whole > 0 && part !== null ? part / whole : null;
}
