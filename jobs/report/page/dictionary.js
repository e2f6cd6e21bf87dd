// The data dictionary: its search leaves the tables, views and queries that a word names, and the columns.
document.addEventListener("DOMContentLoaded", () => {
  const find = document.getElementById("find");
  const found = document.getElementById("found");
  find?.addEventListener("input", () => {
    const word = find.value.trim().toLowerCase();
    let hits = 0;
    for (const section of document.querySelectorAll("main section")) {
      const named = section.querySelector("h3").textContent.toLowerCase().includes(word);
      let inside = 0;
      for (const row of section.querySelectorAll("tbody tr")) {
        const fits = named || row.querySelector("th").textContent.toLowerCase().includes(word);
        row.hidden = !fits;
        inside += fits;
      }
      section.hidden = !named && !inside;
      hits += !section.hidden;
    }
    found.textContent = word ? `${hits} tables, views and queries` : "";
  });
});
