// A job's page: everything but the charts is in the page itself.
function startJob(data) {
  return Promise.all(data.charts.map(({ name, id, rows, text }) => draw(name, id, unpacked(rows), text)))
    .then(() => { document.body.dataset.shown = "job"; });
}

// Rows of a table that the page has by columns; text may be given by its place among all names.
function unpacked(columns) {
  const read = Object.entries(columns).map(([name, values]) => (
    [name, values.places?.map((place) => values.names[place] ?? null) ?? values]));
  return read[0][1].map((_, row) => Object.fromEntries(read.map(([name, values]) => [name, values[row]])));
}

document.addEventListener("DOMContentLoaded", () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  (data.charts ? startJob : startFleet)(data);
});
