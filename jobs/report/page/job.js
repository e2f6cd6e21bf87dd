// A job's page: everything but the charts is in the page itself.
function startJob(data) {
  return Promise.all(data.charts.map(({ name, id, rows, text }) => draw(name, id, unpacked(rows), text)))
    .then(() => { document.body.dataset.shown = "job"; });
}

function unpacked({ columns, values }) {
  return values[0].map((_, row) => Object.fromEntries(columns.map((name, place) => [name, values[place][row]])));
}

document.addEventListener("DOMContentLoaded", () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  (data.charts ? startJob : startFleet)(data);
});
