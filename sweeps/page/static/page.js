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
/* The stream of a page. A browser opens six connections to a host at most, for all its tabs: a page that nobody
   sees gives its own up, and goes on from the last event when it is seen again. The id of an event is a query. Where
   many are seen, the server ends the stream, and says after how many seconds it is asked again. */
class Stream extends EventTarget {
  constructor(address) {
    super();
    Object.assign(this, {address, names: new Set(), source: null, isClosed: false});
    this.turn = () => document.hidden || this.isClosed ? this.disconnect() : this.source || this.connect();
    document.addEventListener("visibilitychange", this.turn);
    this.turn();
  }
  get readyState() { return this.isClosed ? EventSource.CLOSED : this.source?.readyState === EventSource.OPEN ? EventSource.OPEN : EventSource.CONNECTING; }
  connect() {
    const source = this.source = new EventSource(this.address);
    source.onopen = event => this.onopen?.(event);
    source.onerror = event => {
      if (source.readyState === EventSource.CLOSED && source === this.source) { this.disconnect(); setTimeout(this.turn, 3000); }
      this.onerror?.(event);
    };
    source.addEventListener("again", event => { this.disconnect(); setTimeout(this.turn, 1000 * event.data); });
    this.names.forEach(name => this.forward(name));
  }
  disconnect() { this.source?.close(); this.source = null; }
  forward(name) {
    this.source.addEventListener(name, event => {
      this.address = `${this.address.split("?")[0]}?${event.lastEventId}`;
      this.dispatchEvent(new MessageEvent(name, {data: event.data, lastEventId: event.lastEventId}));
    });
  }
  addEventListener(name, ...rest) {
    super.addEventListener(name, ...rest);
    if (this.names.has(name)) return;
    this.names.add(name);
    if (this.source) this.forward(name);
  }
  close() { this.isClosed = true; this.disconnect(); document.removeEventListener("visibilitychange", this.turn); }
}
htmx.createEventSource = address => new Stream(address);
/* What goes wrong is said: htmx shows no answer that is an error. A part that is gone is told in place of the page, a
   button beside it, and all else above the page until it is good again. */
const sayFault = text => {
  const place = document.querySelector("#server-fault");
  if (place.textContent !== text) place.textContent = text;
  place.hidden = !text;
};
const isButton = detail => detail.requestConfig?.verb === "post" && detail.target !== document.body;
const answerBox = (place, text) => {
  const box = Object.assign(document.createElement("p"), {className: "answer-box bad", textContent: text});
  place.replaceChildren(box);
};
const wordsOf = request => {
  const main = new DOMParser().parseFromString(request.responseText, "text/html").querySelector("main");
  return (main?.textContent ?? request.responseText).trim() || `The page's server answers with status ${request.status}.`;
};
document.addEventListener("htmx:beforeSwap", ({detail}) => {
  if (!detail.isError) return;
  if (isButton(detail)) answerBox(detail.target, wordsOf(detail.xhr));
  else if (detail.xhr.status !== 404 || detail.requestConfig.verb !== "get") sayFault(wordsOf(detail.xhr));
  else Object.assign(detail, {
    shouldSwap: true, target: document.querySelector("main"), selectOverride: "main", swapOverride: "outerHTML",
  });
});
document.addEventListener("htmx:sendError", ({detail}) => {
  if (isButton(detail)) answerBox(detail.target, "The page's server does not answer. See whether it was done before you press the button again.");
  else sayFault("The page's server does not answer.");
});
document.addEventListener("htmx:sseError", () => sayFault("The page's server does not answer; it tries again."));
document.addEventListener("htmx:sseOpen", () => sayFault(""));
document.addEventListener("htmx:afterRequest", ({detail}) => detail.successful && sayFault(""));
/* A page whose record is still being read: the answer to a script comes when it has been, which a browser would wait
   for with nothing to show. */
if (document.querySelector("#being-read")) fetch(location.href).finally(() => location.reload());
