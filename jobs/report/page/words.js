"use strict";
// Numbers as people read them; the same rules as jobs/report/wording.py.
const MISSING = "–";

function digits(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return MISSING;
  const size = Math.abs(value);
  const decimals = size >= 99.95 || size === 0 ? 0 : Math.min(Math.max(2 - Math.floor(Math.log10(size)), 0), 4);
  const text = value.toLocaleString("en-US", { maximumFractionDigits: decimals, minimumFractionDigits: 0 });
  return text === "-0" ? "0" : text;
}

function percent(fraction) {
  return fraction === null || Number.isNaN(fraction) ? MISSING : `${digits(100 * fraction)} %`;
}

function ratio(value) {
  return value === null || Number.isNaN(value) ? MISSING : value.toFixed(2);
}

function counted(number, one, many = `${one}s`) {
  return `${digits(number)} ${number === 1 ? one : many}`;
}

function share(part, whole) {
  return whole > 0 ? part / whole : null;
}

// The command line a shell takes as it stands, whatever a name holds.
function quoted(text) {
  return /^[A-Za-z0-9_.,\/:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}
