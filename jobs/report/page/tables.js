// Make an element without parsing HTML, so that a name that looks like markup stays text.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A column is [heading, whether it holds numbers, row -> text, element or list of them, row -> what it is sorted by].
const SHOWN_ROWS = 15;  // rows shown at first, before a click on "Show all"

function fillTable(id, columns, rows, empty, { sort = null, isLast = () => false } = {}) {
  const table = document.getElementById(id);
  const caption = table.querySelector("caption");
  const asked = new URLSearchParams(location.hash.slice(1));
  const [by, way] = asked.get(`sort-${id}`)?.split(":") ?? sort ?? [];
  const key = columns.find(([heading]) => by && heading.endsWith(by))?.[3];
  const sorted = key ? rows.toSorted((a, b) => isLast(a) - isLast(b) || compared(key(a), key(b)) * (way === "down" ? -1 : 1)) : rows;
  const headings = columns.map(([heading, isNumber, , sortedBy]) => {
    const isThis = sortedBy && sortedBy === key;
    const inside = sortedBy ? element("button", { type: "button", class: "sort" }, heading) : heading;
    const made = element("th", { scope: "col", class: isNumber ? "number" : "", ...(isThis ? { "aria-sort": `${way === "down" ? "de" : "a"}scending` } : {}) }, inside);
    if (sortedBy) inside.addEventListener("click", () => {
      asked.set(`sort-${id}`, `${heading}:${isThis ? (way === "down" ? "up" : "down") : isNumber ? "down" : "up"}`);
      history.replaceState(null, "", `${location.pathname}#${asked}`);
      fillTable(id, columns, rows, empty, { sort, isLast });
    });
    return made;
  });
  const body = element("tbody");
  const addRows = (some) => some.forEach((row) => body.append(tableRow(columns, row)));
  addRows(sorted.slice(0, SHOWN_ROWS));
  if (!rows.length) body.append(element("tr", {}, element("td", { colspan: columns.length, class: "faint" }, empty)));
  table.replaceChildren(...(caption ? [caption] : []), element("thead", {}, element("tr", {}, ...headings)), body);
  if (rows.length > SHOWN_ROWS) {
    const button = element("button", { type: "button" }, `Show all ${digits(rows.length)}`);
    const foot = element("tfoot", {}, element("tr", {}, element("td", { colspan: columns.length }, button)));
    button.addEventListener("click", () => { addRows(sorted.slice(SHOWN_ROWS)); foot.remove(); });
    table.append(foot);
  }
}

function compared(a, b) {
  return typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
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

// Return a box that shows a command, with a button that copies it.
function commandBox(line) {
  const box = element("div", { class: "command" }, element("pre", { tabindex: 0 }, element("code", {}, line)));
  addCopyButton(box);
  return box;
}

function addCopyButton(box) {
  const button = element("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    const code = box.querySelector("code");
    const isCopied = await navigator.clipboard.writeText(code.textContent).then(() => true, () => false);
    if (!isCopied) getSelection().selectAllChildren(code);
    button.textContent = isCopied ? "Copied" : "Selected: press Ctrl+C";
  });
  box.append(button);
}
