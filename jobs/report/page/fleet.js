// Script of the fleet's page: filters the rows that the page embeds, and adds up their losses.
const FILTER_IDS = ["from", "to", "team", "cluster", "cause", "by", "search"];

function startFleet(embedded) {
  const data = linked(embedded);
  const bounds = { from: data.first_day, to: data.day, by: "fix" };
  const namesOf = (id) => [...new Set(data.units.map((unit) => unit[id]))].sort((a, b) => a.localeCompare(b)).map((name) => [name, name]);
  const titles = Object.entries(data.causes).map(([name, { title }]) => [name, title]);
  for (const [id, choices] of [["team", namesOf("team")], ["cluster", namesOf("cluster")], ["cause", titles]]) {
    document.getElementById(id).append(...choices.map(([value, text]) => element("option", { value }, text)));
  }
  for (const id of ["from", "to"]) Object.assign(document.getElementById(id), { min: data.first_day, max: data.day });
  const show = () => showLost(data, keptView(bounds));
  const restore = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    for (const id of FILTER_IDS) document.getElementById(id).value = asked.get(id) ?? bounds[id] ?? "";
    return show();
  };
  FILTER_IDS.forEach((id) => document.getElementById(id).addEventListener(id === "search" ? "input" : "change", show));
  document.getElementById("filters").addEventListener("reset", (event) => {
    event.preventDefault();
    history.replaceState(null, "", location.pathname);
    restore();
  });
  addEventListener("hashchange", restore);
  showPeriod(data);
  return restore();
}

// Return the embedded tables as rows, in which each part refers to its unit instead of the unit's index.
function linked(embedded) {
  const tables = ["units", "parts", "runs", "op_types"].map((name) => [name, unpacked(embedded[name])]);
  const data = { ...embedded, ...Object.fromEntries(tables) };
  for (const part of data.parts) part.unit = data.units[part.unit];
  return data;
}

// Return the chosen filters, and write them into the page's address, so that a copied link shows the same view.
function keptView(bounds) {
  const filters = Object.fromEntries(FILTER_IDS.map((id) => [id, document.getElementById(id).value || bounds[id] || ""]));
  const asked = new URLSearchParams(location.hash.slice(1));
  for (const id of FILTER_IDS) {
    if (filters[id] && filters[id] !== bounds[id]) asked.set(id, filters[id]);
    else asked.delete(id);
  }
  history.replaceState(null, "", `${location.pathname}${asked.size ? `#${asked}` : ""}`);
  return filters;
}

// The square of Student's 95 % quantile for 1 / few degrees of freedom, as in schemas/intervals.py.
function studentSquared(few) {
  return 2.7055 + 5.0128 * few / (1 - 1.4036 * few + 0.5391 * few ** 2);
}

// Return half the width of the interval of a sum, as schemas/intervals.py computes it; null if any part's is unknown.
// Errors of one unit and cause add up; of several units of one run and cause, only the shared parts of the errors add up;
// all other errors are independent, so that their squares add up.
function halfOf(parts) {
  if (parts.some((part) => part.half === null && part.lost !== null)) return null;
  const grouped = (rows, key) => [...Map.groupBy(rows, key).values()];
  let variances = 0, fourths = 0, shared = 0;
  for (const run of grouped(parts, (part) => `${part.cause} ${part.unit.run}`)) {
    shared += sumOf(run, "shared") ** 2;
    for (const day of grouped(run, (part) => part.unit.log_date)) {
      const few = day[0].freedom ? 1 / day[0].freedom : 0;
      const own = Math.max(0, sumOf(day, "half") ** 2 - sumOf(day, "shared") ** 2) / studentSquared(few);
      variances += own;
      fourths += own ** 2 * few;
    }
  }
  return Math.sqrt(variances * studentSquared(variances ? fourths / variances ** 2 : 0) + shared);
}

function between(row, amount) {
  return row.lost === null || row.half === null ? MISSING : `${amount(Math.max(0, row.lost - row.half))} to ${amount(row.lost + row.half)}`;
}

function sumOf(rows, name) {
  return rows.reduce((sum, row) => sum + (row[name] ?? 0), 0);
}

async function showLost(data, filters) {
  const isIn = (unit) => unit.log_date >= filters.from && unit.log_date <= filters.to
    && (!filters.team || unit.team === filters.team) && (!filters.cluster || unit.cluster === filters.cluster);
  const isNamed = (name) => (name ?? "").toLowerCase().includes(filters.search.toLowerCase());
  const isMeant = (part) => !filters.search || isNamed(part.unit.job_id) || isNamed(part.host);
  const parts = data.parts.filter((part) => isIn(part.unit) && isMeant(part) && (!filters.cause || part.cause === filters.cause));
  const meant = new Set(parts.map((part) => part.unit));
  const units = data.units.filter((unit) => unit.is_counted && isIn(unit) && (isNamed(unit.job_id) || meant.has(unit)));
  showFound(data, filters.search ? isNamed : null, isIn);
  const whole = { lost: sumOf(parts, "lost"), of: sumOf(units, "of") };
  // A loss that no unit states is unknown, not 0.
  const amount = (lost) => (lost === null ? MISSING : data.measure.unit ? digits(lost) : percent(share(lost, whole.of)));
  document.getElementById("sum").textContent = units.length
    ? `${amount(whole.lost)} ${data.measure.unit || "of the time"} lost in ${counted(units.length, "job-day")}`
      + `${data.measure.unit ? `, ${percent(share(whole.lost, whole.of))} of their ${digits(whole.of)}` : ""}.`
    : "No analysed job-day is left.";
  showFixes(data, parts, whole, amount, filters.by);
  await showTrend(data, units, parts, filters);
  document.body.dataset.shown = JSON.stringify(filters);
}

// Choices of "List by": the key by which parts are grouped into rows, and the name and page of a row.
const LISTS = {
  fix: {
    key: (part) => [part.cause, part.host ?? "", part.host || part.cause === "unexplained" ? "" : part.unit.job_id],
    name: (data, { cause, host, unit }) => (cause === "unexplained" ? "unexplained" : host ?? unit.job_id),
    page: (data, { cause, host, unit }) => (cause === "unexplained" ? null : host ? data.host_pages[host] : unit.page),
  },
  cause: { key: (part) => part.cause, name: (data, part) => data.causes[part.cause].title, page: () => null },
  job: { key: (part) => part.unit.job_id, name: (data, part) => part.unit.job_id, page: (data, part) => part.unit.page },
  host: { key: (part) => part.host ?? "", name: (data, part) => part.host ?? "no single host", page: (data, part) => data.host_pages[part.host] },
  team: { key: (part) => part.unit.team, name: (data, part) => part.unit.team, page: () => null },
};

function showFixes(data, parts, whole, amount, by) {
  const list = LISTS[by];
  const rows = [...Map.groupBy(parts, (part) => JSON.stringify(list.key(part))).values()].map((own) => {
    const heaviest = own.toSorted((a, b) => b.lost - a.lost);
    const paged = heaviest.find((part) => part.unit.page) ?? heaviest[0];
    return {
      parts: heaviest, name: list.name(data, own[0]), page: list.page(data, paged), lost: own.some((part) => part.lost !== null) ? sumOf(own, "lost") : null, half: halfOf(own),
      causes: [...new Set(heaviest.map((part) => part.cause))], flagged: own.filter((part) => part.is_flagged).length,
      days: new Set(own.map((part) => `${part.unit.run} ${part.unit.log_date}`)).size,
    };
  });
  const titles = (row) => row.causes.map((cause) => data.causes[cause].title).join(", ");
  const isFix = by === "fix" || by === "cause";
  // The unexplained loss cannot be fixed, so its row is last in every order.
  const isLast = (row) => isFix && row.causes[0] === "unexplained";
  fillTable("fixes", [
    [by === "fix" ? "where" : by, false, (row) => (row.page ? element("a", { href: row.page }, row.name) : row.name), (row) => row.name],
    [data.measure.unit ? `${data.measure.unit} lost` : "lost", true, (row) => amount(row.lost), (row) => row.lost ?? -1],
    ["90 % interval", true, (row) => between(row, amount), (row) => row.half ?? -1],
    ["of all", true, (row) => [percent(share(row.lost, whole.lost)), bar(share(row.lost, whole.lost))], (row) => row.lost ?? -1],
    ...(by === "cause" ? [] : [[by === "fix" ? "cause" : "causes", false, titles, titles]]),
    ...(by === "job" ? [] : [["jobs", false, (row) => jobLinks(data, row.parts)]]),
    ["job-days", true, (row) => digits(row.days), (row) => row.days],
    ["uncertain", true, (row) => (row.flagged ? `${row.flagged} of ${row.parts.length}` : ""), (row) => row.flagged],
    ...(isFix ? [["what to do", false, (row) => data.causes[row.causes[0]].advice]] : []),
  ], rows, "nothing is lost here", { sort: ["lost", "down"], isLast });
}

// List the jobs and hosts whose names contain the searched text, each with its page or the command that makes its page.
function showFound(data, isNamed, isIn) {
  document.getElementById("found-jobs").hidden = !isNamed;
  if (!isNamed) return;
  const named = data.units.filter((unit) => isNamed(unit.job_id) && isIn(unit)).toSorted((a, b) => compared(b.log_date, a.log_date));
  const hosts = [...new Set([...Object.keys(data.host_pages), ...data.parts.map((part) => part.host ?? "")])].filter((host) => host && isNamed(host));
  const rows = [
    ...named.map((unit) => ({ name: unit.job_id, kind: `job, ${unit.log_date}`, page: unit.page, line: `${data.report_job} ${unit.run} --log-date ${unit.log_date}` })),
    ...hosts.map((host) => ({ name: host, kind: "host", page: data.host_pages[host], line: null })),
  ];
  fillTable("found", [
    ["name", false, (row) => row.name, (row) => row.name],
    ["what", false, (row) => row.kind, (row) => row.kind],
    ["page", false, (row) => (row.page ? element("a", { href: row.page }, "open") : row.line ? [element("span", {}, "this makes it:"), commandBox(row.line)] : MISSING)],
  ], rows, "no job or host of the period has this name");
}

// Return links to the pages of the three jobs that lose most; if none has a page, also the command that makes one.
function jobLinks(data, parts) {
  const jobs = [...Map.groupBy(parts, (part) => part.unit.job_id).values()];
  const links = jobs.slice(0, 3).map((own) => {
    const unit = (own.find((part) => part.unit.page) ?? own[0]).unit;
    return unit.page ? element("a", { href: unit.page }, unit.job_id) : unit.job_id;
  });
  const more = jobs.length > 3 ? [` and ${jobs.length - 3} more`] : [];
  const listed = links.flatMap((link, place) => (place ? [", ", link] : [link]));
  if (parts.some((part) => part.unit.page)) return [...listed, ...more];
  const { unit } = parts[0];
  const line = `${data.report_job} ${unit.run} --log-date ${unit.log_date}`;
  return [...listed, ...more, element("details", {}, element("summary", {}, "make its page"), commandBox(line))];
}

// Group the days of a period by day, week or month, so that the trend has few enough bars to read.
function bucketsOf({ from, to }) {
  const days = (Date.parse(to) - Date.parse(from)) / 86400000 + 1;
  if (days <= 31) return { name: "day", of: (day) => day };
  if (days <= 180) return { name: "week", of: (day) => new Date(Date.parse(day) - ((new Date(day).getUTCDay() + 6) % 7) * 86400000).toISOString().slice(0, 10) };
  return { name: "month", of: (day) => day.slice(0, 7) };
}

async function showTrend(data, units, parts, filters) {
  const buckets = bucketsOf(filters);
  const order = Object.keys(data.causes);
  const shortly = Object.values(data.causes).map(({ title }) => title.replace(/ \(.*/, ""));  // a narrow legend has no room for more
  const of = Map.groupBy(units, (unit) => buckets.of(unit.log_date));
  const rows = [...Map.groupBy(parts, (part) => `${buckets.of(part.unit.log_date)} ${part.cause}`).values()].map((own) => {
    const bucket = buckets.of(own[0].unit.log_date);
    return { bucket, place: order.indexOf(own[0].cause), cause: shortly[order.indexOf(own[0].cause)], value: share(sumOf(own, "lost"), sumOf(of.get(bucket), "of")) };
  });
  const isTrend = new Set(rows.map((row) => row.bucket)).size > 1;
  const text = !isTrend ? `No trend: only one ${buckets.name} is left.` : `Share lost of what was analysed, by ${buckets.name} and cause.`;
  document.getElementById("trend-text").textContent = text;
  await draw("trend", "chart-trend", isTrend ? rows : [], shortly);
}

// Show the tables and charts that cover the whole period, which the filters do not change.
function showPeriod(data) {
  fillTable("hosts", [
    ["host", false, (row) => (row.page ? element("a", { href: row.page }, row.host) : row.host), (row) => row.host],
    ["slow in", true, (row) => row.slow_in, (row) => row.jobs_slow],
    ["expected", true, (row) => digits(row.expected), (row) => row.expected],
    ["verdict", false, (row) => row.recurrence],
    ["pattern", false, (row) => row.pattern, (row) => row.pattern],
    ["days slow", true, (row) => digits(row.days_slow), (row) => row.days_slow],
    ["first", false, (row) => row.first, (row) => row.first],
    ["last", false, (row) => row.last, (row) => row.last],
  ], data.hosts, "no host was slow");
  fillTable("slower", [
    ["job", false, (unit) => (unit.page ? element("a", { href: unit.page }, unit.job_id) : unit.job_id), (unit) => unit.job_id],
    ["run", false, (unit) => unit.run_id], ["day", false, (unit) => unit.log_date, (unit) => unit.log_date],
    ["times as long", true, (unit) => digits(unit.times), (unit) => unit.times],
    ["step [s]", true, (unit) => digits(unit.step_s), (unit) => unit.step_s],
    ["before [s]", true, (unit) => digits(unit.usual_s), (unit) => unit.usual_s],
    ["GPU-hours longer", true, (unit) => digits(unit.gpu_hours), (unit) => unit.gpu_hours ?? -1],
    ["largest cause", false, (unit) => unit.cause, (unit) => unit.cause],
    ["why not analysed", false, (unit) => unit.why, (unit) => unit.why],
  ], data.slower, "none is", { sort: ["times as long", "down"] });
  fillTable("left-out", [
    ["job", false, (run) => run.job_id, (run) => run.job_id], ["run", false, (run) => run.run_id],
    ["GPU-hours", true, (run) => digits(run.gpu_hours), (run) => run.gpu_hours ?? -1],
    ["why", false, (run) => run.why, (run) => run.why], ["facts", false, (run) => run.facts],
  ], data.left_out, "every run was analysed", { sort: ["GPU-hours", "down"] });
  draw("waste", "chart-waste", data.runs.length > 1 ? data.runs : []);  // a single run makes no line
  draw("sizes", "chart-sizes", data.runs.filter((run) => run.world_size));
  draw("opTypes", "chart-op-types", data.op_types);
}
