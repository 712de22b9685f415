"use strict";
/* Sorts a table by the column whose header is pressed, and unfolds a long one. */
addEventListener("click", event => {
  const button = event.target.closest(".table button");
  if (!button) return;
  const table = button.closest(".table").querySelector("table"), header = button.closest("th");
  if (!header) {
    table.classList.remove("folded");
    button.remove();
    return;
  }
  const column = header.cellIndex, body = table.tBodies[0];
  const isDown = header.getAttribute("aria-sort") === "ascending";
  for (const each of header.parentElement.cells) each.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  const rows = Array.from(body.rows, row => {
    const text = row.cells[column].textContent, number = parseFloat(text.replaceAll(",", ""));
    return {row, text, number};
  });
  const order = (one, other) => {
    if (!one.text || !other.text) return !one.text - !other.text;  // what is missing comes last
    const by = isNaN(one.number) || isNaN(other.number)
      ? isNaN(one.number) - isNaN(other.number) || one.text.localeCompare(other.text)
      : one.number - other.number;
    return isDown ? -by : by;
  };
  body.append(...rows.sort(order).map(each => each.row));
});
