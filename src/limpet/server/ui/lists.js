// A list that comes in pages and refreshes itself.

import { get } from "./api.js";
import { button, complain, count, el, keep, known, say, table } from "./dom.js";

const MOST = 1000;

export async function paged({ page, signal }, { path, query, heads, label, noun, render, none }) {
  const parts = table(heads, [], label), body = parts.tBodies[0];
  let items = [], next = null;
  const more = button("More", async () => {
    more.disabled = true;
    try {
      const found = await get(path, { ...query, cursor: next }, signal);
      show([...items, ...found.items], found.next);
    } catch (error) {
      complain(error);
    }
    more.disabled = false;
  });

  function show(found, then) {
    items = found;
    next = then;
    for (const { user } of found) known(user);
    keep(body, items, render);
    parts.hidden = !items.length;
    more.hidden = !next;
  }

  const empty = el("div");
  async function load() {
    const limit = Math.min(MOST, Math.max(50, items.length));
    const found = await get(path, { ...query, limit }, signal);
    const was = items.length;
    show(found.items, found.next);
    empty.replaceChildren(...(items.length ? [] : [await none()]));
    if (was !== items.length) say(`${count(items.length, noun)}${next ? " and more" : ""}`);
  }

  page.append(parts, more, empty);
  await load();
  return load;
}
