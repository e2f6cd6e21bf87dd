// Sums over the units that the filters leave. Ratios are always ratios of such sums, never means of ratios.
const ONE_DAY_MS = 86400000;

function dayNumber(day) {
  return Date.parse(`${day}T00:00:00Z`) / ONE_DAY_MS;
}

function dayText(number) {
  return new Date(number * ONE_DAY_MS).toISOString().slice(0, 10);
}

// Which units are in, and of which cause; a filter that is empty leaves all.
function select(data, { from, to, team, cluster, cause }) {
  const inScope = data.units.filter((unit) => unit.log_date >= from && unit.log_date <= to
    && (!team || unit.team === team) && (!cluster || unit.cluster === cluster));
  const isAsked = (part) => !cause || part.cause === cause;
  const chosen = inScope.filter((unit) => !cause || unit.parts.some(isAsked));
  return { inScope, chosen, parts: chosen.flatMap((unit) => unit.parts.filter(isAsked)) };
}

function isAnalysed(unit) {
  return unit.status === "analysed";
}

// Null where no row states it.
function sumOf(rows, name) {
  return rows.reduce((sum, row) => (row[name] === null ? sum : (sum ?? 0) + row[name]), null);
}

// GPU-hours of some units: all, those analysed, those wasted.
function hoursOf(units) {
  const analysed = units.filter(isAnalysed);
  return { hours: sumOf(units, "gpu_hours"), analysed: sumOf(analysed, "gpu_hours"), wasted: sumOf(analysed, "wasted_gpu_hours") };
}

// One record for each run among these units: its times and hours summed over its days.
function runsOf(data, units) {
  const order = Object.keys(data.statuses);
  return [...Map.groupBy(units, (unit) => unit.run).values()].map((days) => {
    const analysed = days.filter(isAnalysed);
    const furthest = days.reduce((best, day) => (order.indexOf(day.status) >= order.indexOf(best.status) ? day : best));
    const slowdown = share(sumOf(analysed, "simulated_total_s"), sumOf(analysed, "ideal_total_s"));
    return {
      ...furthest, days, slowdown, hours: sumOf(days, "gpu_hours"), wasted: sumOf(analysed, "wasted_gpu_hours"),
      gpus: days.findLast((day) => day.world_size !== null)?.world_size ?? null,
      isStraggling: slowdown !== null && slowdown >= data.straggling_slowdown,
    };
  });
}

function headline({ headlines }, { chosen, parts }) {
  if (!chosen.length) return headlines.no_jobs;
  const { analysed, wasted } = hoursOf(chosen);
  if (!analysed) return headlines.no_hours;
  const returned = sumOf(parts, "attributed_gpu_hours") ?? 0;
  const values = {
    lost: digits(wasted), analysed: digits(analysed), share: percent(wasted / analysed), returned: digits(returned),
    more: returned > wasted ? headlines.more : "",
  };
  return headlines.lost.replace(/{(\w+)}/g, (_, name) => values[name]);
}

// Parts grouped by a key, most attributed hours first, then by what the fix saves of a job's time.
function fixes(parts, keyOf) {
  const found = [...Map.groupBy(parts, keyOf)].filter(([key]) => key !== null).map(([key, own]) => ({
    key, parts: own, runs: new Set(own.map((part) => part.unit.run)).size,
    attributed: sumOf(own, "attributed_gpu_hours"), recoverable: sumOf(own, "recoverable_gpu_hours"),
    saved: own.reduce((most, part) => Math.max(most, part.time_saved_fraction), 0),
    flagged: own.filter((part) => part.is_flagged).length,
  }));
  return found.sort((a, b) => (
    (b.attributed ?? -Infinity) - (a.attributed ?? -Infinity) || b.saved - a.saved));
}

// Days, weeks or months, whichever leaves a chart that can be read.
function bucketsOf({ from, to }) {
  const length = dayNumber(to) - dayNumber(from) + 1;
  if (length <= 21) return { name: "day", of: (day) => day };
  if (length <= 120) return { name: "week", of: (day) => dayText(dayNumber(day) - ((dayNumber(day) + 3) % 7)) };
  return { name: "month", of: (day) => day.slice(0, 7) };
}

// Exact, interpolated, as SQL's percentile has it; values in ascending order.
function percentileOf(sorted, fraction) {
  const place = fraction * (sorted.length - 1);
  const below = Math.floor(place);
  return sorted[below] + (place - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
}
