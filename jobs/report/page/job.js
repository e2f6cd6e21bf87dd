// Script of a job's page, which draws its charts; all else is in the HTML.
async function startJob(data) {
  if (data.timeline) onStep = (chosen) => showStep(data, chosen);
  await Promise.all(data.charts.map(({ name, id, rows }) => draw(name, id, unpacked(rows))));
  document.body.dataset.shown = "job";
}

function showStep(data, { step, worker }) {
  const place = document.getElementById("chosen-step");
  const where = worker === undefined ? "" : `, and in it stage / dp rank ${worker}`;
  place.replaceChildren(element("p", {}, `This writes the timeline of step ${step}${where}; open it in https://ui.perfetto.dev.`), commandBox(`${data.timeline}${step}`));
  place.scrollIntoView({ block: "nearest" });
}

// Convert a table from columns to rows; a column of texts may be a list of distinct names, and for each row an index.
function unpacked(columns) {
  const read = Object.entries(columns).map(([name, values]) => (
    [name, values.places?.map((place) => values.names[place] ?? null) ?? values]));
  return read[0][1].map((_, row) => Object.fromEntries(read.map(([name, values]) => [name, values[row]])));
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".command").forEach(addCopyButton);
  const embedded = document.getElementById("data");
  const data = embedded && JSON.parse(embedded.textContent);
  if (!data) document.body.dataset.shown = "page";
  else (data.charts ? startJob : startFleet)(data);
});
