// Charts of the fleet's page, and what changed since last week.
async function showTrend({ chosen }, filters) {
  const buckets = bucketsOf(filters);
  const rows = [...Map.groupBy(chosen, (unit) => buckets.of(unit.log_date))].flatMap(([bucket, units]) => {
    const sums = hoursOf(units);
    const values = [share(sums.wasted, sums.analysed), share(sums.analysed, sums.hours)];
    return values.map((value, place) => ({ bucket, figure: TREND_FIGURES[place], value })).filter((row) => row.value !== null);
  });
  const lost = rows.filter((row) => row.figure === TREND_FIGURES[0]);
  const text = lost.length > 1
    ? `By ${buckets.name}: ${percent(lost[0].value)} of the analysed GPU-hours were lost in the first, ${percent(lost.at(-1).value)} in the last.`
    : `One ${buckets.name}: there is no trend yet.`;
  caption("trend-text", text);
  await draw("trend", "chart-trend", rows, text);
}

async function showWaste(runs) {
  const sorted = runs.filter((run) => run.slowdown !== null).map((run) => 1 - 1 / run.slowdown).sort((a, b) => a - b);
  const every = Math.max(1, Math.floor(sorted.length / 400));
  const rows = sorted.map((waste, place) => ({ waste, share: (place + 1) / sorted.length }))
    .filter((_, place) => place % every === 0 || place === sorted.length - 1);
  const marks = [0.5, 0.9, 0.99].map((part) => ({ waste: percentileOf(sorted, part), share: part, mark: `${100 * part} %` }));
  if (sorted.length) rows.push(...marks);
  const text = sorted.length
    ? `Half of the ${counted(sorted.length, "analysed run")} waste at most ${percent(marks[0].waste)} of their time, the worst tenth at least ${percent(marks[1].waste)}, the worst hundredth at least ${percent(marks[2].waste)}.`
    : "No run was analysed.";
  caption("waste-text", text);
  await draw("waste", "chart-waste", rows, text);
}

async function showOpTypes(data, { from, to }) {
  const stated = data.op_types.filter((row) => row.log_date >= from && row.log_date <= to && row.wasted_gpu_hours !== null);
  const rows = [...Map.groupBy(stated, (row) => row.op_type)].map(([name, days]) => (
    { op_type: name, value: share(sumOf(days, "wasted_gpu_hours"), sumOf(days, "gpu_hours")) })).filter((row) => row.value !== null);
  rows.sort((a, b) => b.value - a.value);
  const text = rows.length ? `${rows[0].op_type} alone costs most: ${percent(rows[0].value)} of the GPU-hours of the jobs that have it.` : "No op types.";
  caption("op-types-text", text);
  await draw("opTypes", "chart-op-types", rows, text);
}

async function showCausesOverTime(data, { parts }, filters) {
  const buckets = bucketsOf(filters);
  const rows = parts.map((part) => (
    { bucket: buckets.of(part.unit.log_date), cause: data.causes[part.cause].title, hours: part.attributed_gpu_hours ?? 0 }));
  const text = `GPU-hours that fixes would return, by ${buckets.name} and cause.`;
  await draw("causesOverTime", "chart-causes-over-time", rows, text, titlesOf(data));
}

async function showSizes(runs) {
  const rows = runs.filter((run) => run.slowdown !== null && run.gpus > 0).map((run) => ({
    job: `${run.job_id}, run ${run.run_id}`, gpus: run.gpus, slowdown: run.slowdown, page: run.days.find((unit) => unit.page)?.page ?? null }));
  await draw("sizes", "chart-sizes", rows, `Slowdown of ${counted(rows.length, "analysed run")} against their number of GPUs.`);
}

function caption(id, text) {
  document.getElementById(id).textContent = text;
}

// The last seven days of the selection beside the seven before.
function showWeek(data, filters) {
  const last = dayNumber(filters.to);
  const weeks = [[last - 6, last], [last - 13, last - 7]].map(([from, to]) => {
    const chosen = select(data, { ...filters, from: dayText(from), to: dayText(to) });
    return { chosen, runs: runsOf(data, chosen.chosen), sums: hoursOf(chosen.chosen), all: hoursOf(chosen.inScope) };
  });
  const [now, before] = weeks;
  const figures = [
    ["runs", (week) => week.runs.length, digits],
    ["straggling runs", (week) => week.runs.filter((run) => run.isStraggling).length, digits],
    ["GPU-hours lost", (week) => week.sums.wasted, digits],
    ["share of analysed GPU-hours lost", (week) => share(week.sums.wasted, week.sums.analysed), percent],
    ["share of GPU-hours analysed", (week) => share(week.all.analysed, week.all.hours), percent],
    ...Object.entries(data.causes).map(([cause, { title }]) => [`returned by fixing: ${title}`,
      (week) => sumOf(week.chosen.parts.filter((part) => part.cause === cause), "attributed_gpu_hours") ?? 0, digits]),
  ];
  fillTable("week", [
    ["figure", false, ([name]) => name], ["last 7 days", true, ([, of, shown]) => shown(of(now))],
    ["7 days before", true, ([, of, shown]) => (before.runs.length ? shown(of(before)) : MISSING)],
    ["change", true, ([, of, shown]) => (before.runs.length ? changed(of(now), of(before), shown) : MISSING)],
  ], figures, "");
  document.getElementById("week").hidden = !before.runs.length;
  caption("week-text", before.runs.length ? newcomers(now, before) : "There were no runs in the seven days before: nothing to compare with.");
}

function changed(now, before, shown) {
  if (now === null || before === null) return MISSING;
  return `${now > before ? "+" : ""}${shown(now - before)}`;
}

function newcomers(now, before) {
  const names = (week, keep) => new Set(week.runs.filter(keep).map((run) => run.job_id));
  const [slow, wasSlow] = [now, before].map((week) => names(week, (run) => run.isStraggling));
  const fine = names(now, (run) => run.slowdown !== null && !run.isStraggling);
  const listed = (some) => (some.length > 8 ? [...some.slice(0, 8), `${some.length - 8} more`] : some).join(", ") || "none";
  const fresh = [...slow].filter((name) => !wasSlow.has(name));
  const better = [...wasSlow].filter((name) => fine.has(name) && !slow.has(name));
  return `Newly straggling: ${listed(fresh)}. No longer straggling: ${listed(better)}.`;
}
