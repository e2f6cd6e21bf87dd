// Elements are made, never parsed: a name that looks like markup stays a name.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A column is [heading, whether it holds numbers, row -> text, element or list of them].
const SHOWN_ROWS = 15;  // all that may become of a run, in one look

function fillTable(id, columns, rows, empty) {
  const table = document.getElementById(id);
  const caption = table.querySelector("caption");
  const headings = columns.map(([heading, isNumber]) => (
    element("th", { scope: "col", class: isNumber ? "number" : "" }, heading)));
  const body = element("tbody");
  const addRows = (some) => some.forEach((row) => body.append(tableRow(columns, row)));
  addRows(rows.slice(0, SHOWN_ROWS));
  if (!rows.length) body.append(element("tr", {}, element("td", { colspan: columns.length, class: "faint" }, empty)));
  table.replaceChildren(...(caption ? [caption] : []), element("thead", {}, element("tr", {}, ...headings)), body);
  if (rows.length > SHOWN_ROWS) {
    const button = element("button", { type: "button" }, `Show all ${digits(rows.length)}`);
    const foot = element("tfoot", {}, element("tr", {}, element("td", { colspan: columns.length }, button)));
    button.addEventListener("click", () => { addRows(rows.slice(SHOWN_ROWS)); foot.remove(); });
    table.append(foot);
  }
}

function tableRow(columns, row) {
  const cells = columns.map(([, isNumber, content], place) => {
    const inside = [content(row)].flat();
    return element(place ? "td" : "th", place ? { class: isNumber ? "number" : "" } : { scope: "row" }, ...inside);
  });
  return element("tr", {}, ...cells);
}

function bar(fraction) {
  const width = `${Math.max(0, Math.min(1, fraction ?? 0)) * 100}%`;
  const fill = element("span", { class: "fill" });
  fill.style.width = width;
  return element("span", { class: "bar", "aria-hidden": "true" }, fill);
}
