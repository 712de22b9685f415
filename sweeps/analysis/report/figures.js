"use strict";
/* Draws each <figure> from its content: JSON beside it in #ID-content, or fetched from its data-address.
   Drawn anew by Plotly.react, it keeps what the reader has zoomed into. `figures.draw()` draws all;
   `figures.refresh()` fetches those anew whose address has changed. */
const figures = (() => {
  const BUTTONS = {displaylogo: false, modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]]};
  const PANEL = {width: 270, height: 220};  // pixels that one of several panels takes
  const PAPER = {panel: 150, font: 10, half: 330, height: 230, shrinks: 0.75};  // figures are smaller there
  const root = document.documentElement;
  const contents = new Map();  // of each figure, as text
  const color = name => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const isPaper = () => root.classList.contains("paper");
  const places = () => Array.from(document.querySelectorAll("figure[id^=figure-]"));

  /* The figure in the colours of the page: what is black, blue or white in it is text, accent or ground. */
  function themed(content) {
    const inked = content.replaceAll('"#000000"', JSON.stringify(color("text")))
      .replaceAll('"#0072B2"', JSON.stringify(color("accent")))
      .replaceAll('"rgb(255, 255, 255)"', JSON.stringify(color("panel")));
    const figure = JSON.parse(inked), template = figure.layout.template.layout;
    template.font.color = color("text");
    template.paper_bgcolor = template.plot_bgcolor = "rgba(0, 0, 0, 0)";
    if (isPaper()) template.font.size = PAPER.font;
    for (const axis of [template.xaxis, template.yaxis]) {
      axis.gridcolor = color("line");
      axis.linecolor = color("faint");
    }
    template.hoverlabel = {bgcolor: color("panel"), bordercolor: color("line"), font: {color: color("text")}};
    for (const trace of figure.data)  // what points say stands once in a table
      if (trace.customdata) trace.customdata = trace.customdata.map(row => figure.words[row]);
    return figure;
  }

  /* Panels side by side as many as there is room for. */
  function arrange(layout, panels) {
    const most = Math.floor(layout.width / (isPaper() ? PAPER.panel : PANEL.width));
    const columns = Math.max(1, Math.min(panels, most));
    const rows = Math.ceil(panels / columns);
    layout.grid = {rows, columns, pattern: "independent", xgap: 0.22, ygap: 0.36};
    for (const [name, axis] of Object.entries(layout)) if (/^[xy]axis/.test(name)) delete axis.domain;
    layout.height = layout.margin.t + 30 + PANEL.height * rows;
  }

  function prepared(place) {
    const figure = themed(contents.get(place)), {min_width = 0, spans} = figure.layout.meta || {};
    place.style.minWidth = "";
    place.closest(".card").classList.toggle("spans", spans || isPaper() && min_width > PAPER.half);
    return [place, figure];
  }

  function sized([place, figure]) {
    const {layout} = figure, {min_width = 0, panels = 0} = layout.meta || {};
    const room = place.parentElement.clientWidth;
    layout.width = isPaper() ? room : Math.max(room, min_width);
    if (panels > 1) arrange(layout, panels);
    if (isPaper()) layout.height = Math.max(Math.min(layout.height, PAPER.height), layout.height * PAPER.shrinks);
    layout.uirevision = place.id;
    place.style.minWidth = `${layout.width}px`;
    place.style.minHeight = `${layout.height}px`;
    return [place, figure];
  }

  function tell(place, {title, caption, why_blank}) {
    const card = place.closest(".drawn");
    card.querySelector("h3").textContent = title;
    card.querySelector(".faint").textContent = why_blank || caption;
    card.classList.toggle("blank", Boolean(why_blank));
    place.setAttribute("aria-label", title);
  }

  /* Each step is done with all, for the next one measures: figures of a row are as high as the highest. */
  function draw(which = places()) {
    const ready = which.filter(place => place.isConnected && contents.get(place));
    for (const [place, {data, layout}] of ready.map(prepared).map(sized)) {
      layout.height = Math.max(layout.height, place.clientHeight);
      Plotly.react(place, data, layout, BUTTONS);
    }
    document.body.dataset.drawn = ready.length;
  }

  async function fetched(place) {
    const address = place.dataset.address;
    if (place.shown === address) return;
    place.shown = address;
    const text = await fetch(address).then(answer => answer.ok ? answer.text() : "").catch(() => "");
    if (place.shown !== address) return;  // it was asked for anew meanwhile
    if (!text) {
      place.shown = "";  // so that it is fetched when it comes into view again
      return;
    }
    const figure = JSON.parse(text);
    tell(place, figure);
    contents.set(place, figure.why_blank ? "" : text);
    draw([place]);
  }

  const seen = new IntersectionObserver(
    all => all.filter(one => one.isIntersecting).forEach(one => fetched(one.target)), {rootMargin: "400px"});

  function refresh() {
    for (const place of places()) {
      const beside = document.getElementById(`${place.id}-content`);
      if (beside) contents.set(place, beside.textContent);
      else if (place.dataset.address) {
        seen.unobserve(place);
        seen.observe(place);
      }
    }
  }

  function print(begins) {
    root.classList.toggle("paper", begins);
    draw();
  }

  refresh();
  draw();
  let waiting = 0, width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width || isPaper()) return;
    width = innerWidth;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => draw());
  });
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
  return {draw, refresh};
})();
