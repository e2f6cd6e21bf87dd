// The fleet's page: reads the filters, sums, and fills in what is shown.
const FILTER_IDS = ["from", "to", "team", "cluster", "cause"];

function startFleet(embedded) {
  const data = linked(embedded);
  const bounds = { from: data.first_day, to: data.day };
  for (const id of ["from", "to"]) {
    const input = document.getElementById(id);
    Object.assign(input, { min: bounds.from, max: bounds.to, value: bounds[id] });
  }
  const namesOf = (id) => [...new Set(data.units.map((unit) => unit[id]))].sort((a, b) => a.localeCompare(b)).map((name) => [name, name]);
  const titles = Object.entries(data.causes).map(([name, { title }]) => [name, title]);
  for (const [id, choices] of [["team", namesOf("team")], ["cluster", namesOf("cluster")], ["cause", titles]]) {
    document.getElementById(id).append(...choices.map(([value, text]) => element("option", { value }, text)));
  }
  const show = () => showFleet(data, readFilters(bounds));
  FILTER_IDS.forEach((id) => document.getElementById(id).addEventListener("change", show));
  document.getElementById("filters").addEventListener("reset", () => setTimeout(() => {
    for (const id of ["from", "to"]) document.getElementById(id).value = bounds[id];
    show();
  }));
  return show();
}

// The tables as rows; units have their parts, and parts their unit.
function linked(embedded) {
  const rows = ["units", "parts", "op_types", "hosts"].map((name) => [name, unpacked(embedded[name])]);
  const data = { ...embedded, ...Object.fromEntries(rows) };
  for (const unit of data.units) unit.parts = [];
  for (const part of data.parts) {
    part.unit = data.units[part.unit];
    part.unit.parts.push(part);
  }
  return data;
}

function readFilters(bounds) {
  const filters = Object.fromEntries(FILTER_IDS.map((id) => [id, document.getElementById(id).value]));
  return { ...filters, from: filters.from || bounds.from, to: filters.to || bounds.to };
}

async function showFleet(data, filters) {
  const chosen = select(data, filters);
  const runs = runsOf(data, chosen.chosen);
  const everyRun = runsOf(data, chosen.inScope);
  document.getElementById("headline").textContent = headline(data, chosen);
  showScope(data, chosen, runs, everyRun);
  showCoverage(data, everyRun);
  const first = showFixes(data, chosen, runs);
  showHosts(data);
  showWeek(data, filters);
  showLeftOut(data, everyRun);
  await Promise.all([
    first, showTrend(chosen, filters), showWaste(runs), showOpTypes(data, filters),
    showCausesOverTime(data, chosen, filters), showSizes(runs),
  ]);
  document.body.dataset.shown = JSON.stringify(filters);
}

function showScope(data, chosen, runs, everyRun) {
  const analysed = runs.filter((run) => run.slowdown !== null).length;
  const straggling = runs.filter((run) => run.isStraggling).length;
  const sums = hoursOf(chosen.inScope);
  document.getElementById("scope").textContent = `${straggling} of ${counted(analysed, "analysed run")} straggle `
    + `(slowdown of ${data.straggling_slowdown} or more). These figures speak for ${percent(share(sums.analysed, sums.hours))} `
    + `of the GPU-hours of ${counted(everyRun.length, "run")}.`;
}

function showCoverage(data, runs) {
  const hours = sumOf(runs, "hours");
  const byStatus = Map.groupBy(runs, (run) => run.status);
  const rows = Object.keys(data.statuses).reverse().filter((status) => byStatus.has(status)).map((status) => ({
    status, jobs: byStatus.get(status).length, hours: sumOf(byStatus.get(status), "hours") ?? 0 }));
  fillTable("coverage", [
    ["status", false, (row) => data.statuses[row.status]],
    ["runs", true, (row) => digits(row.jobs)],
    ["share of runs", true, (row) => [percent(share(row.jobs, runs.length)), bar(share(row.jobs, runs.length))]],
    ["GPU-hours", true, (row) => digits(row.hours)],
    ["share of GPU-hours", true, (row) => [percent(share(row.hours, hours)), bar(share(row.hours, hours))]],
  ], rows, "no runs");
}

function showFixes(data, { parts }, runs) {
  const title = (cause) => data.causes[cause].title;
  const causes = fixes(parts, (part) => part.cause);
  const hours = [
    ["returned", true, (fix) => digits(fix.attributed)],
    ["by this fix alone", true, (fix) => digits(fix.recoverable)],
  ];
  const evidence = ["evidence", false, (fix) => evidenceOf(data, fix)];
  const flagged = ["uncertain", true, (fix) => (fix.flagged ? `${fix.flagged} of ${fix.parts.length}` : "")];
  fillTable("fix-causes", [
    ["cause", false, (fix) => title(fix.key)], hours[0], evidence, ["what to do", false, (fix) => data.causes[fix.key].fix],
    hours[1], ["runs", true, (fix) => digits(fix.runs)], flagged,
  ], causes, "no cause was found");
  const runOf = new Map(runs.map((run) => [run.run, run]));
  fillTable("fix-jobs", [
    ["job", false, (fix) => runOf.get(fix.key).job_id], hours[0], ["evidence", false, (fix) => evidenceOf(data, fix, true)],
    ["run", false, (fix) => runOf.get(fix.key).run_id], ["slowdown", true, (fix) => ratio(runOf.get(fix.key).slowdown)],
    ["lost", true, (fix) => digits(runOf.get(fix.key).wasted)],
    ["causes", false, (fix) => [...new Set(fix.parts.map((part) => title(part.cause)))].join(", ")],
  ], fixes(parts, (part) => part.unit.run), "no cause was found");
  const pattern = new Map(data.hosts.map((row) => [row.host, row.pattern]));
  fillTable("fix-hosts", [
    ["host", false, (fix) => fix.key], hours[0], evidence, hours[1],
    ["runs slowed", true, (fix) => digits(fix.runs)], ["pattern", false, (fix) => pattern.get(fix.key) ?? MISSING],
  ], fixes(parts, (part) => part.host), "no cause was traced to a host");
  const rows = causes.filter((fix) => fix.attributed !== null)
    .map((fix) => ({ cause: title(fix.key), hours: fix.attributed }));
  const text = rows.length ? `Most is returned by fixing: ${rows.map((row) => `${row.cause} ${digits(row.hours)}`).join(", ")} GPU-hours.` : "No hours to return.";
  return draw("causes", "chart-causes", rows, text, titlesOf(data));
}

function titlesOf(data) {
  return Object.values(data.causes).map(({ title }) => title);
}

// Job pages of the units that matter most, or the command that makes one.
function evidenceOf(data, fix, isOneRun = false) {
  const weight = (part) => part.attributed_gpu_hours ?? part.time_saved_fraction;
  const units = [...new Set([...fix.parts].sort((a, b) => weight(b) - weight(a)).map((part) => part.unit))];
  const paged = units.filter((unit) => unit.page);
  const shown = isOneRun ? paged : [...Map.groupBy(paged, (unit) => unit.run).values()].map(([first]) => first);
  const links = shown.slice(0, 3).map((unit) => element("a", { href: unit.page }, isOneRun ? unit.log_date : unit.job_id));
  if (links.length) return links.flatMap((link, place) => (place ? [", ", link] : [link]));
  const command = `${data.report_job} ${units[0].run} --log-date ${units[0].log_date}`;
  return element("details", {}, element("summary", {}, "make its page"), element("code", {}, command));
}

function showHosts(data) {
  fillTable("hosts", [
    ["host", false, (row) => row.host], ["slow in jobs", true, (row) => `${row.jobs_slow} of ${row.jobs}`],
    ["by chance", true, (row) => digits(row.expected_jobs_slow)], ["p-value", true, (row) => digits(row.p_value)],
    ["beyond chance", false, (row) => (row.is_beyond_chance ? "yes" : "no")], ["pattern", false, (row) => row.pattern.replace("_", "-")],
    ["days slow", true, (row) => digits(row.days_slow)], ["first", false, (row) => row.first_slow],
    ["last", false, (row) => row.last_slow],
  ], data.hosts, "no host was slow");
}

function showLeftOut(data, runs) {
  const rows = runs.filter((run) => run.status !== "analysed").sort((a, b) => (b.hours ?? -1) - (a.hours ?? -1));
  fillTable("left-out", [
    ["job", false, (run) => run.job_id], ["run", false, (run) => run.run_id],
    ["GPU-hours", true, (run) => digits(run.hours)], ["why", false, (run) => data.statuses[run.status]],
    ["facts", false, (run) => run.detail ?? ""],
  ], rows, "every run was analysed");
}
