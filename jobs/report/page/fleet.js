// The fleet's page: reads the filters, sums, and fills in what is shown.
const FILTER_IDS = ["from", "to", "team", "cluster", "cause"];

function startFleet(data) {
  const bounds = { from: data.first_day, to: data.day };
  for (const id of ["from", "to"]) {
    const input = document.getElementById(id);
    Object.assign(input, { min: bounds.from, max: bounds.to, value: bounds[id] });
  }
  for (const [id, names] of [["team", data.teams], ["cluster", data.clusters], ["cause", fixableCauses(data)]]) {
    const choices = names.map((name, place) => [name, place]);
    if (id !== "cause") choices.sort(([a], [b]) => a.localeCompare(b));
    document.getElementById(id).append(...choices.map(([name, place]) => element("option", { value: place }, name)));
  }
  const show = () => showFleet(data, readFilters(bounds));
  FILTER_IDS.forEach((id) => document.getElementById(id).addEventListener("change", show));
  document.getElementById("filters").addEventListener("reset", () => setTimeout(() => {
    for (const id of ["from", "to"]) document.getElementById(id).value = bounds[id];
    show();
  }));
  return show();
}

function readFilters(bounds) {
  const value = (id) => document.getElementById(id).value;
  const filters = { from: value("from") || bounds.from, to: value("to") || bounds.to };
  for (const id of ["team", "cluster", "cause"]) filters[id] = Number(value(id));
  return filters;
}

async function showFleet(data, filters) {
  const chosen = select(data, filters);
  const runs = runsOf(data, chosen.chosen);
  document.getElementById("headline").textContent = headline(data, chosen);
  showScope(data, chosen, runs);
  showCoverage(data, runsOf(data, chosen.inScope));
  const first = showFixes(data, chosen, runs);
  showHosts(data, chosen);
  showWeek(data, filters);
  showLeftOut(data, runsOf(data, chosen.inScope));
  await Promise.all([
    first, showTrend(data, chosen, filters), showWaste(runs), showOpTypes(data, filters),
    showCausesOverTime(data, chosen, filters), showSizes(data, runs),
  ]);
  document.body.dataset.shown = JSON.stringify(filters);
}

function showScope(data, chosen, runs) {
  const analysed = runs.filter((run) => run.slowdown !== null).length;
  const straggling = runs.filter((run) => run.isStraggling).length;
  const sums = hoursOf(data, chosen.inScope);
  document.getElementById("scope").textContent = `${straggling} of ${counted(analysed, "analysed run")} straggle `
    + `(slowdown of ${data.straggling_slowdown} or more). These figures speak for ${percent(share(sums.analysed, sums.hours))} `
    + `of the GPU-hours of ${counted(runsOf(data, chosen.inScope).length, "run")}.`;
}

function showCoverage(data, runs) {
  const hours = runs.reduce((sum, run) => sum + (run.hours ?? 0), 0);
  const rows = [...grouped(runs, (run) => run.status)].map(([status, some]) => ({
    status, jobs: some.length, hours: some.reduce((sum, run) => sum + (run.hours ?? 0), 0) }));
  rows.sort((a, b) => furthest(data)[b.status] - furthest(data)[a.status]);
  fillTable("coverage", [
    ["status", false, (row) => data.statuses[row.status][1]],
    ["runs", true, (row) => digits(row.jobs)],
    ["share of runs", true, (row) => [percent(share(row.jobs, runs.length)), bar(share(row.jobs, runs.length))]],
    ["GPU-hours", true, (row) => digits(row.hours)],
    ["share of GPU-hours", true, (row) => [percent(share(row.hours, hours)), bar(share(row.hours, hours))]],
  ], rows, "no runs");
}

function showFixes(data, chosen, runs) {
  const { parts, units } = data;
  const title = (cause) => data.causes[cause][1];
  const causes = fixes(data, chosen.parts, (k) => parts.cause[k]);
  const hours = [
    ["returned", true, (fix) => digits(fix.attributed)],
    ["by this fix alone", true, (fix) => digits(fix.recoverable)],
  ];
  const evidence = ["evidence", false, (fix) => evidenceOf(data, fix)];
  const flagged = ["uncertain", true, (fix) => (fix.flagged ? `${fix.flagged} of ${fix.parts.length}` : "")];
  fillTable("fix-causes", [
    ["cause", false, (fix) => title(fix.key)], hours[0], evidence, ["what to do", false, (fix) => data.causes[fix.key][2]],
    hours[1], ["runs", true, (fix) => digits(new Set(fix.parts.map((k) => units.run[parts.unit[k]])).size)], flagged,
  ], causes, "no cause was found");
  const runOf = new Map(runs.map((run) => [run.run, run]));
  fillTable("fix-jobs", [
    ["job", false, (fix) => data.runs[fix.key][0]], hours[0], ["evidence", false, (fix) => evidenceOf(data, fix, true)],
    ["run", false, (fix) => data.runs[fix.key][1]], ["slowdown", true, (fix) => ratio(runOf.get(fix.key).slowdown)], ["lost", true, (fix) => digits(runOf.get(fix.key).wasted)],
    ["causes", false, (fix) => [...new Set(fix.parts.map((k) => title(parts.cause[k])))].join(", ")],
  ], fixes(data, chosen.parts, (k) => units.run[parts.unit[k]]), "no cause was found");
  const record = new Map(data.host_record.map((row) => [row.host, row]));
  const told = (name) => (fix) => record.get(data.hosts[fix.key])?.[name] ?? MISSING;
  fillTable("fix-hosts", [
    ["host", false, (fix) => data.hosts[fix.key]], hours[0], evidence, hours[1],
    ["runs slowed", true, (fix) => digits(new Set(fix.parts.map((k) => units.run[parts.unit[k]])).size)],
    ["pattern", false, told("pattern")],
  ], fixes(data, chosen.parts, (k) => (parts.host[k] < 0 ? null : parts.host[k])), "no cause was traced to a host");
  const rows = causes.filter((fix) => fix.attributed !== null)
    .map((fix) => ({ cause: title(fix.key), hours: fix.attributed }));
  const text = rows.length ? `Most is returned by fixing: ${rows.map((row) => `${row.cause} ${digits(row.hours)}`).join(", ")} GPU-hours.` : "No hours to return.";
  return draw("causes", "chart-causes", rows, text, fixableCauses(data));
}

// Titles of all causes but the last, which has no fix.
function fixableCauses(data) {
  return data.causes.slice(0, -1).map(([, title]) => title);
}

// Job pages of the units that matter most, or the command that makes one.
function evidenceOf(data, fix, isOneRun = false) {
  const { parts, units } = data;
  const weight = (k) => parts.attributed[k] ?? parts.saved[k];
  const sorted = [...fix.parts].sort((a, b) => weight(b) - weight(a)).map((k) => parts.unit[k]);
  const paged = new Set(units.paged);
  const distinct = [...new Set(sorted)];
  const shown = distinct.filter((k) => paged.has(k))
    .filter((k, place, all) => isOneRun || all.findIndex((other) => units.run[other] === units.run[k]) === place);
  const links = shown.slice(0, 3).map((k) => element("a", { href: pageOf(data, k) }, isOneRun ? data.days[units.day[k]] : data.runs[units.run[k]][0]));
  if (links.length) return links.flatMap((link, place) => (place ? [", ", link] : [link]));
  const [job, run] = data.runs[units.run[distinct[0]]];
  const command = `.venv/bin/python -m jobs.report_job${data.warehouse && ` --warehouse ${quoted(data.warehouse)}`}`
    + ` --job-id=${quoted(job)} --run-id=${quoted(run)} --log-date ${data.days[units.day[distinct[0]]]}`;
  return element("details", {}, element("summary", {}, "make its page"), element("code", {}, command));
}

function pageOf(data, unit) {
  const day = data.days[data.units.day[unit]];
  const folder = day === data.day ? "jobs" : `../${day}/jobs`;
  return `${folder}/${data.page_of_run[data.units.run[unit]]}`;
}

function showHosts(data) {
  fillTable("hosts", [
    ["host", false, (row) => row.host], ["slow in jobs", true, (row) => `${row.jobs_slow} of ${row.jobs}`],
    ["by chance", true, (row) => digits(row.expected)], ["p-value", true, (row) => digits(row.p_value)],
    ["beyond chance", false, (row) => (row.is_beyond_chance ? "yes" : "no")], ["pattern", false, (row) => row.pattern.replace("_", "-")],
    ["days slow", true, (row) => digits(row.days_slow)], ["first", false, (row) => row.first_slow],
    ["last", false, (row) => row.last_slow],
  ], data.host_record, "no host was slow");
}

function showLeftOut(data, runs) {
  const rows = runs.filter((run) => data.statuses[run.status][0] !== "analysed")
    .sort((a, b) => (b.hours ?? -1) - (a.hours ?? -1));
  fillTable("left-out", [
    ["job", false, (run) => data.runs[run.run][0]], ["run", false, (run) => data.runs[run.run][1]],
    ["GPU-hours", true, (run) => digits(run.hours)], ["why", false, (run) => data.statuses[run.status][1]],
    ["facts", false, (run) => run.detail],
  ], rows, "every run was analysed");
}
