// Everything that is shown goes through `el`: strings become text, never markup.

export const $ = (id) => document.getElementById(id);

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const link = (href, ...children) => el("a", { href }, ...children);
export const button = (text, onclick, props = {}) => el("button", { type: "button", onclick, ...props }, text);
export const quiet = (text) => el("p", { class: "empty" }, text);
export const say = (text) => { $("status").textContent = text; };
export const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

// A user whose name the picker can offer.
export function known(name) {
  const list = $("users");
  if (name && ![...list.options].some((each) => each.value === name)) list.append(el("option", { value: name }));
}

const FORMAT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function when(iso) {
  return iso ? el("time", { datetime: iso }, FORMAT.format(new Date(iso))) : "";
}

export function badge(text, kind = "") {
  return el("span", { class: `badge ${kind}` }, text);
}

// The heads stand beside each cell too, for screens too narrow for a table.
export function row(heads, cells, id) {
  return el("tr", { "data-id": id }, cells.map((cell, at) => el("td", { "data-head": heads[at] }, cell)));
}

export function table(heads, rows = [], label = "") {
  const head = el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)));
  return el("table", { "aria-label": label }, el("thead", {}, head), el("tbody", {}, rows));
}

// Rows that did not change stay the same nodes, so that focus and selection survive a refresh.
export function keep(body, items, render) {
  const known = new Map([...body.children].map((node) => [node.dataset.id, node]));
  const wanted = items.map((item) => {
    const seen = JSON.stringify(item), old = known.get(item.id);
    if (old?.seen === seen) return old;
    const node = render(item);
    node.seen = seen;
    if (known.size) node.classList.add("fresh");
    return node;
  });
  const staying = new Set(wanted);
  for (const node of [...body.children]) if (!staying.has(node)) node.remove();
  wanted.forEach((node, at) => { if (body.children[at] !== node) body.insertBefore(node, body.children[at] ?? null); });
}

export function complain(error) {
  if (error?.name === "AbortError") return;
  const close = button("Dismiss", () => { $("banner").hidden = true; }, { class: "quiet" });
  $("banner").replaceChildren(el("p", {}, error.message ?? String(error)), close);
  $("banner").hidden = false;
}

// What a person said, or a line for each part that is no text. An address stays text: it may be of any kind.
export function words(content) {
  if (typeof content === "string") return content;
  return content.map((part) => part.text ?? `[${part.kind}: ${part.alt ?? part.name ?? ""} ${part.uri}]`).join("\n");
}

// Asks in a dialog; Escape means no.
export function sure(title, text, yes) {
  const box = $("ask");
  $("ask-title").textContent = title;
  $("ask-text").textContent = text;
  $("ask-yes").textContent = yes;
  return new Promise((resolve) => {
    box.returnValue = "";
    $("ask-yes").onclick = () => box.close("yes");
    $("ask-no").onclick = () => box.close();
    box.onclose = () => resolve(box.returnValue === "yes");
    box.showModal();
    $("ask-no").focus();
  });
}
