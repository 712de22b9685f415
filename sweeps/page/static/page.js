"use strict";
/* What has been drawn stays while the page around it is morphed: of a figure only its address is taken over. */
Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, fresh) => {
  if (!(old instanceof Element) || !old.matches(".drawn")) return true;
  const before = old.querySelector("figure"), after = fresh.querySelector("figure");
  if (!before || !after || before.id !== after.id) return true;
  before.dataset.address = after.dataset.address;
  return false;
};
/* A box that somebody has ticked stays so. */
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, element) => name !== "checked" || element.type !== "checkbox";
/* A live part that was asked for before somebody sorted or filtered it is out of date. */
document.addEventListener("htmx:beforeSwap", ({detail}) => {
  const part = detail.target;
  if (detail.requestConfig.elt !== part || detail.pathInfo.requestPath === part.getAttribute("hx-get")) return;
  detail.shouldSwap = false;
  setTimeout(() => htmx.trigger(part, "sse:changed"));
});
document.addEventListener("htmx:afterSettle", () => typeof figures === "undefined" || figures.refresh());
