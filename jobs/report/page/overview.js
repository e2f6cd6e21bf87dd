// Charts of the fleet's page, and what changed since last week.
async function showTrend(data, chosen, filters) {
  const buckets = bucketsOf(filters.from, filters.to);
  const rows = [];
  for (const [bucket, places] of grouped(chosen.chosen, (k) => buckets.of(data.days[data.units.day[k]]))) {
    const sums = hoursOf(data, places);
    for (const [figure, value] of [[TREND_FIGURES[0], share(sums.wasted, sums.analysed)], [TREND_FIGURES[1], share(sums.analysed, sums.hours)]]) {
      if (value !== null) rows.push({ bucket, from: bucket, figure, value });
    }
  }
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

async function showOpTypes(data, filters) {
  const { day, op_type: names, hours, wasted } = data.op_types;
  const places = day.flatMap((date, k) => (date >= filters.from && date <= filters.to && wasted[k] !== null ? [k] : []));
  const rows = [...grouped(places, (k) => names[k])].map(([name, some]) => (
    { op_type: name, value: share(sumOf(wasted, some), sumOf(hours, some)) })).filter((row) => row.value !== null);
  rows.sort((a, b) => b.value - a.value);
  const text = rows.length ? `${rows[0].op_type} alone costs most: ${percent(rows[0].value)} of the GPU-hours of the jobs that have it.` : "No op types.";
  caption("op-types-text", text);
  await draw("opTypes", "chart-op-types", rows, text);
}

async function showCausesOverTime(data, chosen, filters) {
  const buckets = bucketsOf(filters.from, filters.to);
  const names = fixableCauses(data);
  const { unit, cause, attributed } = data.parts;
  const rows = [];
  for (const [bucket, places] of grouped(chosen.parts, (k) => buckets.of(data.days[data.units.day[unit[k]]]))) {
    for (const [number, some] of grouped(places, (k) => cause[k])) {
      rows.push({ bucket, cause: names[number], hours: sumOf(attributed, some) ?? 0 });
    }
  }
  await draw("causesOverTime", "chart-causes-over-time", rows, `GPU-hours that fixes would return, by ${buckets.name} and cause.`, names);
}

async function showSizes(data, runs) {
  const paged = new Set(data.units.paged);
  const rows = runs.filter((run) => run.slowdown !== null && run.world > 0).map((run) => {
    const unit = run.units.find((k) => paged.has(k));
    return { job: data.runs[run.run].join(", run "), gpus: run.world, slowdown: run.slowdown, page: unit === undefined ? null : pageOf(data, unit) };
  });
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
    return { chosen, runs: runsOf(data, chosen.chosen), sums: hoursOf(data, chosen.chosen), all: hoursOf(data, chosen.inScope) };
  });
  const [now, before] = weeks;
  const figures = [
    ["runs", (week) => week.runs.length, digits],
    ["straggling runs", (week) => week.runs.filter((run) => run.isStraggling).length, digits],
    ["GPU-hours lost", (week) => week.sums.wasted, digits],
    ["share of analysed GPU-hours lost", (week) => share(week.sums.wasted, week.sums.analysed), percent],
    ["share of GPU-hours analysed", (week) => share(week.all.analysed, week.all.hours), percent],
    ...data.causes.slice(0, -1).map(([, title], cause) => [`returned by fixing: ${title}`,
      (week) => sumOf(data.parts.attributed, week.chosen.parts.filter((k) => data.parts.cause[k] === cause)) ?? 0, digits]),
  ];
  fillTable("week", [
    ["figure", false, ([name]) => name], ["last 7 days", true, ([, of, shown]) => shown(of(now))],
    ["7 days before", true, ([, of, shown]) => (before.runs.length ? shown(of(before)) : MISSING)],
    ["change", true, ([, of, shown]) => (before.runs.length ? changed(of(now), of(before), shown) : MISSING)],
  ], figures, "");
  document.getElementById("week").hidden = !before.runs.length;
  caption("week-text", before.runs.length ? newcomers(data, now, before) : "There were no runs in the seven days before: nothing to compare with.");
}

function changed(now, before, shown) {
  if (now === null || before === null) return MISSING;
  return `${now > before ? "+" : ""}${shown(now - before)}`;
}

function newcomers(data, now, before) {
  const names = (week, keep) => new Set(week.runs.filter(keep).map((run) => data.runs[run.run][0]));
  const [slow, wasSlow] = [now, before].map((week) => names(week, (run) => run.isStraggling));
  const fine = names(now, (run) => run.slowdown !== null && !run.isStraggling);
  const listed = (some) => (some.length > 8 ? [...some.slice(0, 8), `${some.length - 8} more`] : some).join(", ") || "none";
  const fresh = [...slow].filter((name) => !wasSlow.has(name));
  const better = [...wasSlow].filter((name) => fine.has(name) && !slow.has(name));
  return `Newly straggling: ${listed(fresh)}. No longer straggling: ${listed(better)}.`;
}
