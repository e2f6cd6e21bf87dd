// Descriptions of all charts in Vega-Lite. Colours of causes are Okabe and Ito's, which colour-blind readers can tell apart,
// and two more that differ clearly from each of these.
const CAUSE_COLOURS = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8700e1", "#783c1e", "#8c8c8c"];
const HOTTEST_PERCENT = 30;
const HEAT_PERCENT = [0, 3, 8, 17, HOTTEST_PERCENT];
// The scale begins with the page's background, so that healthy workers do not stand out; slower workers are darker in light
// mode, and brighter in dark mode.
const HEAT_LIGHT = ["#fbd0a2", "#f0803c", "#a8286b", "#2b0b3f"];
const HEAT_DARK = ["#4b1d5e", "#a8286b", "#f0803c", "#fff0b3"];
const MOST_BAR = 90;  // most pixels for a bar of the trend
const WIDEST_CELL = 48;
const HIGHEST_CELL = 24;
const HIGHEST_MAP = 420;
const NARROWEST_MAP = 380;
// Vega interprets expressions instead of compiling them, and adds no styles: the page's policy forbids both.
const INERT = { ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true } };
const views = new Map();
let onStep = null;  // what a click on a step does

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function theme() {
  const text = colour("--text");
  const faint = colour("--line");
  const sizes = { labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" };
  const axis = { ...sizes, labelColor: text, titleColor: text, gridColor: faint, domainColor: faint, tickColor: faint, labelLimit: 190 };
  return {
    background: null, font: "system-ui, sans-serif", view: { stroke: null }, axis,
    legend: { ...sizes, labelColor: text, titleColor: text, orient: "top", labelLimit: 230 },
    mark: { color: colour("--accent"), tooltip: true }, rule: { color: text }, text: { color: text },
  };
}

function spec(height, parts) {
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    width: "container", height, autosize: { type: "fit", contains: "padding" }, data: { name: "rows", values: [] }, ...parts,
  };
}

const field = (name, type, title, more = {}) => ({ field: name, type, title, ...more });
const SHARE = { format: "~%" };  // as many digits as tell the labels apart

const CHARTS = {
  // The axis ends near the largest value: on one that ends at 100 %, a loss of 5 % would hardly be visible.
  trend: (names) => spec(240, {
    mark: { type: "bar" },
    encoding: {
      x: field("bucket", "ordinal", null, { axis: { labelOverlap: true, labelAngle: -40 } }),
      y: field("value", "quantitative", "lost, of what was analysed", { axis: { format: ".1%", tickCount: 5 } }),
      color: field("cause", "nominal", null, { scale: { domain: names, range: CAUSE_COLOURS }, legend: { title: null, columns: 3 } }),
      order: { field: "place" },
      tooltip: [field("cause", "nominal", "cause"), field("bucket", "ordinal", "from"), field("value", "quantitative", "lost", { format: ".1%" })],
    },
  }),
  waste: () => spec(240, {
    transform: [{ window: [{ op: "cume_dist", as: "share" }], sort: [{ field: "waste_fraction" }] }],
    mark: { type: "line", interpolate: "step-after", strokeWidth: 2 },
    encoding: {
      x: field("waste_fraction", "quantitative", "waste: share of a run's time", { axis: SHARE }),
      y: field("share", "quantitative", "share of analysed runs", { axis: SHARE, scale: { domain: [0, 1] } }),
    },
  }),
  opTypes: () => spec(330, {
    mark: { type: "bar", cornerRadiusEnd: 2 },
    encoding: {
      y: field("op_type", "nominal", null, { sort: "-x" }),
      x: field("value", "quantitative", "time lost by this op type alone", { axis: SHARE }),
      tooltip: [field("op_type", "nominal", "op type"), field("value", "quantitative", "time lost", { format: ".1%" })],
    },
  }),
  sizes: () => spec(260, {
    mark: { type: "point", filled: true, opacity: 0.6, size: 36 },
    encoding: {
      x: field("world_size", "quantitative", "GPUs", { scale: { type: "log", base: 2 }, axis: { grid: false } }),
      y: field("slowdown", "quantitative", "slowdown", { axis: { format: ".2f" }, scale: { zero: false } }),
      href: { field: "page" },
      tooltip: [field("job_id", "nominal", "job"), field("run_id", "nominal", "run"), field("world_size", "quantitative", "GPUs"),
        field("slowdown", "quantitative", "slowdown", { format: ".2f" })],
    },
  }),
  workers: () => heat("dp_rank", "data-parallel rank (from 0)", "stage", "stage (from 0)", [
    field("dp_rank", "ordinal", "dp rank"), field("stage", "ordinal", "stage"), field("host", "nominal", "host")]),
  stepMap: () => marked(heat("step", "step", "worker", "stage / dp rank (from 0)", [
    field("step", "ordinal", "step"), field("worker", "nominal", "stage / dp rank"), field("onset", "nominal", "begins here")])),
  steps: () => spec(200, {
    encoding: { x: field("step", "ordinal", "step", { axis: { labelOverlap: true, labelSeparation: 6, labelAngle: 0 } }) },
    layer: [
      { mark: { type: "line", point: { size: 30 } },
        encoding: {
          y: field("slowdown", "quantitative", "slowdown of the step", { axis: { format: ".2f" }, scale: { zero: false } }),
          detail: { field: "burst" },
          tooltip: [field("step", "ordinal", "step"), field("slowdown", "quantitative", "slowdown", { format: ".3f" })],
        } },
      { mark: { type: "rule", strokeDash: [4, 4] }, encoding: { y: { datum: 1.1 }, x: null } },
    ],
  }),
  power: () => spec(220, {
    encoding: { x: field("at_s", "quantitative", "time in the mean step, s", { scale: { nice: false, zero: true }, axis: { grid: false } }) },
    layer: [
      { mark: { type: "area", interpolate: "step", opacity: 0.25, color: colour("--accent") },
        encoding: { y: field("low", "quantitative", "workers that compute"), y2: { field: "high" } } },
      { mark: { type: "line", interpolate: "step", strokeWidth: 2 },
        encoding: {
          y: field("share", "quantitative", "workers that compute", { axis: SHARE, scale: { domain: [0, 1] } }),
          tooltip: [field("at_s", "quantitative", "s", { format: ".3f" }), field("share", "quantitative", "mean", { format: ".1%" }),
            field("low", "quantitative", "least", { format: ".1%" }), field("high", "quantitative", "greatest", { format: ".1%" })],
        } },
    ],
  }),
};

function heatColours() {
  return colour("--is-dark") === "1" ? HEAT_DARK : HEAT_LIGHT;
}

// One scale for all pages: the root of the excess, so that 2 % differs visibly from nothing, and 15 % from 30 %.
function heat(x, xTitle, y, yTitle, tooltip) {
  return spec(0, {
    mark: { type: "rect", stroke: colour("--line"), strokeWidth: 0.5 },
    encoding: {
      x: field(x, "ordinal", xTitle, { axis: { labelOverlap: true, labelSeparation: 6, labelAngle: 0, ticks: false } }),
      y: field(y, "ordinal", yTitle, { sort: null, axis: { labelOverlap: true, ticks: false } }),
      color: field("excess", "quantitative", "% of the ideal step added by this worker alone", {
        scale: { type: "pow", exponent: 0.5, range: [colour("--page"), ...heatColours()], domain: HEAT_PERCENT, interpolate: "rgb", clamp: true },
        legend: { values: [0, 1, 5, 10, HOTTEST_PERCENT], gradientLength: 240, titleLimit: 400, labelOverlap: false,
          labelExpr: `datum.value < ${HOTTEST_PERCENT} ? datum.label : '${HOTTEST_PERCENT} and more'` } }),
      tooltip: [...tooltip, field("excess", "quantitative", "% added", { format: ".2f" })],
    },
  });
}

// Add circles where a culprit's slowness begins, which are visible on every colour of the map.
function marked({ mark, encoding, ...whole }) {
  const { x, y, tooltip } = encoding;
  const circle = { type: "point", shape: "circle", size: 60, strokeWidth: 2, stroke: "#ffffff", fill: "#0072b2", opacity: 1 };
  return { ...whole, encoding: { x, y, tooltip }, layer: [
    { mark, encoding: { color: encoding.color } },
    { transform: [{ filter: "datum.onset" }], mark: circle },
  ] };
}

// Draw a chart, or replace the rows of a chart that is drawn already.
async function draw(name, id, rows, ...more) {
  const place = document.getElementById(id);
  place.hidden = !rows.length;
  if (!rows.length) return;
  const drawn = views.get(id);
  if (drawn) {
    drawn.rows = rows;
    await (await drawn.view).data("rows", rows).resize().runAsync();
    return;
  }
  const made = { rows, redraw: () => embed(place, CHARTS[name](...more), made) };
  views.set(id, made);
  await made.redraw();
}

async function embed(place, description, made) {
  const options = { actions: false, renderer: made.rows.length > 1500 ? "canvas" : "svg", config: theme(), ...INERT };
  description.data.values = made.rows;
  description.description = place.dataset.name;  // becomes the chart's aria-label, for screen readers
  const kind = (description.mark ?? description.layer[0].mark).type;
  if (kind === "rect") sizeCells(place, description, made.rows);
  if (kind === "bar" && description.encoding.x.field === "bucket") sizeBars(place, description, made.rows);
  made.view = vegaEmbed(place, description, options).then((result) => result.view);
  (await made.view).addEventListener("click", (_, item) => item?.datum?.step !== undefined && onStep?.(item.datum));
}

// Size a map by its cells: a map of few workers is small, one of many fills the width of the page.
function sizeCells(place, description, rows) {
  const count = (channel) => new Set(rows.map((row) => row[description.encoding[channel].field])).size;
  const width = count("x") * WIDEST_CELL + 80;
  if (width < place.clientWidth) description.width = Math.max(width, Math.min(NARROWEST_MAP, place.clientWidth));
  description.height = Math.min(count("y") * HIGHEST_CELL, HIGHEST_MAP) + 110;
}

// Limit the width of a trend with few days, so that its bars are not too wide.
function sizeBars(place, description, rows) {
  const width = new Set(rows.map((row) => row.bucket)).size * MOST_BAR + 90;
  if (width < place.clientWidth) description.width = Math.max(width, Math.min(NARROWEST_MAP, place.clientWidth));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const made of views.values()) made.redraw();
});
