// What memory knows about a question, and why.

import { get, send } from "./api.js";
import { count, el, link, quiet, row, say, table, when } from "./dom.js";
import * as sessions from "./sessions.js";

const SIGNAL = ["signal", "rank", "score"];

export const place = (question) => `#/search?${new URLSearchParams({ q: question })}`;

export async function results({ page, query, signal, user }) {
  const question = query.get("q") ?? "";
  if (!question.trim()) { page.append(quiet("Ask something in the box above.")); return; }
  const asked = user ? { query: question, user } : { query: question };
  const { hits } = await send("POST", "/v1/recall", asked, signal); // not in an address, which others may log
  const keys = await keysOf(hits, signal);
  page.append(
    el("h1", {}, "“", question, "”"),
    el("p", { class: "note" }, user ? `In the memory of ${user}.` : "In your own memory. Name a user above to search theirs."),
    hits.length ? el("ol", { class: "hits" }, hits.map((each) => hit(each, keys))) : quiet("Nothing was found."),
  );
  say(`${count(hits.length, "hit")} for ${question}`);
}

function hit({ text, score, signals, source, rank }, keys) {
  const rows = Object.entries(signals).map(([name, each]) => row(SIGNAL, [name, String(each.rank), each.score.toFixed(3)]));
  return el("li", {},
    el("p", { class: "text" }, text),
    el("p", { class: "from" }, from(source, keys), " ", el("span", { class: "score" }, `score ${score.toFixed(3)}`)),
    el("div", { class: "why" }, table(SIGNAL, rows, `Why hit ${rank} stands here`)),
  );
}

function from(source, keys) {
  if (source.kind === "record") return el("span", {}, link(`#/records/${source.id}`, "record"), " · ", when(source.created_at));
  if (source.kind === "document") return el("span", {}, "document ", source.uri ?? source.id, ` from character ${source.offset ?? 0}`);
  const { first_sequence: first, last_sequence: last, session_id: id } = source;
  const which = first === last ? `message ${first}` : `messages ${first}–${last}`;
  const target = sessions.place(id, first, last);
  return el("span", {}, link(target, `${which} of ${keys.get(id) ?? id}`), ` · ${source.name ?? source.role ?? ""} · `, when(source.created_at));
}

async function keysOf(hits, signal) {
  const ids = new Set(hits.map((each) => each.source.session_id).filter(Boolean));
  const found = await Promise.allSettled([...ids].map((id) => get(`/v1/sessions/${id}`, {}, signal)));
  return new Map(found.filter((each) => each.value).map(({ value }) => [value.id, value.key]));
}
