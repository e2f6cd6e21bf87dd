// Sums over the units that the filters leave. Ratios are always ratios of such sums, never means of ratios.
const ONE_DAY_MS = 86400000;

function dayNumber(day) {
  return Date.parse(`${day}T00:00:00Z`) / ONE_DAY_MS;
}

function dayText(number) {
  return new Date(number * ONE_DAY_MS).toISOString().slice(0, 10);
}

// Which units are in, and of which cause: cause -1 is any.
function select(data, filters) {
  const { units, parts } = data;
  const withCause = new Set();
  if (filters.cause >= 0) parts.cause.forEach((cause, k) => cause === filters.cause && withCause.add(parts.unit[k]));
  const inScope = [];
  units.day.forEach((day, k) => {
    const date = data.days[day];
    const fits = date >= filters.from && date <= filters.to
      && (filters.team < 0 || units.team[k] === filters.team)
      && (filters.cluster < 0 || units.cluster[k] === filters.cluster);
    if (fits) inScope.push(k);
  });
  const chosen = filters.cause < 0 ? inScope : inScope.filter((k) => withCause.has(k));
  const isChosen = new Uint8Array(units.day.length);
  chosen.forEach((k) => { isChosen[k] = 1; });
  const chosenParts = parts.unit.flatMap((unit, k) => (
    isChosen[unit] && (filters.cause < 0 || parts.cause[k] === filters.cause) ? [k] : []));
  return { inScope, chosen, parts: chosenParts };
}

function isAnalysed(data, unit) {
  return data.statuses[data.units.status[unit]][0] === "analysed";
}

// GPU-hours of some units, null where no unit states them: all, those analysed, those wasted.
function hoursOf(data, chosen) {
  const { hours, wasted } = data.units;
  const sums = { hours: null, analysed: null, wasted: null };
  for (const k of chosen) {
    if (hours[k] === null) continue;
    sums.hours += hours[k];
    if (!isAnalysed(data, k)) continue;
    sums.analysed += hours[k];
    sums.wasted += wasted[k];
  }
  return sums;
}

function sumOf(values, places) {
  return places.reduce((sum, k) => (values[k] === null ? sum : (sum ?? 0) + values[k]), null);
}

// One record for each run among these units: its times and hours summed over its days.
function runsOf(data, chosen) {
  const { units } = data;
  const order = furthest(data);
  const found = new Map();
  for (const k of chosen) {
    const run = found.get(units.run[k]) ?? {
      run: units.run[k], simulated: 0, ideal: 0, hours: null, wasted: null, world: null, status: 0, units: [],
    };
    run.units.push(k);
    run.world = units.world[k] ?? run.world;
    if (order[units.status[k]] >= order[run.status] || run.units.length === 1) {
      run.status = units.status[k];
      run.detail = units.detail[k];
    }
    if (units.hours[k] !== null) run.hours += units.hours[k];
    if (isAnalysed(data, k)) {
      run.simulated += units.simulated[k];
      run.ideal += units.ideal[k];
      if (units.wasted[k] !== null) run.wasted += units.wasted[k];
    }
    found.set(units.run[k], run);
  }
  for (const run of found.values()) {
    run.slowdown = run.ideal > 0 ? run.simulated / run.ideal : null;
    run.isStraggling = run.slowdown !== null && run.slowdown >= data.straggling_slowdown;
  }
  return [...found.values()];
}

// How far a unit with each status has come; our own defect tells nothing about a run.
function furthest(data) {
  return data.statuses.map(([name], place) => (name === "failed" ? -1 : place));
}

function headline(data, chosen) {
  if (!chosen.chosen.length) return "There are no such jobs in this period.";
  const sums = hoursOf(data, chosen.chosen);
  if (!sums.analysed) return "No analysed job states its GPU-hours: what stragglers cost cannot be said in hours.";
  const returned = sumOf(data.parts.attributed, chosen.parts) ?? 0;
  return `Stragglers cost ${digits(sums.wasted)} of ${digits(sums.analysed)} analysed GPU-hours `
    + `(${percent(sums.wasted / sums.analysed)}); fixing every cause found would return ${digits(returned)}${returned > sums.wasted ? data.more_than_lost : ""}.`;
}

// Parts grouped by a key, most attributed hours first, then by what the fix saves of a job's time.
function fixes(data, places, keyOf) {
  const { parts } = data;
  const found = new Map();
  for (const k of places) {
    const key = keyOf(k);
    if (key === null) continue;
    const fix = found.get(key) ?? { key, attributed: null, recoverable: null, saved: 0, flagged: 0, parts: [] };
    fix.parts.push(k);
    if (parts.attributed[k] !== null) {
      fix.attributed += parts.attributed[k];
      fix.recoverable += parts.recoverable[k];
    }
    fix.saved = Math.max(fix.saved, parts.saved[k]);
    fix.flagged += parts.flagged[k];
    found.set(key, fix);
  }
  return [...found.values()].sort((a, b) => (
    (b.attributed ?? -Infinity) - (a.attributed ?? -Infinity) || b.saved - a.saved));
}

// Days, weeks or months, whichever leaves a chart that can be read.
function bucketsOf(from, to) {
  const length = dayNumber(to) - dayNumber(from) + 1;
  if (length <= 21) return { name: "day", of: (day) => day };
  if (length <= 120) return { name: "week", of: (day) => dayText(dayNumber(day) - ((dayNumber(day) + 3) % 7)) };
  return { name: "month", of: (day) => day.slice(0, 7) };
}

function grouped(values, keyOf) {
  const found = new Map();
  for (const value of values) {
    const key = keyOf(value);
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(value);
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

// Exact, interpolated, as SQL's percentile has it; values in ascending order.
function percentileOf(sorted, fraction) {
  if (!sorted.length) return null;
  const place = fraction * (sorted.length - 1);
  const below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}
