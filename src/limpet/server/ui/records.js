// Records, what each has said, and forgetting one.

import { get, send } from "./api.js";
import { badge, button, complain, count, el, link, quiet, row, say, sure, table, when } from "./dom.js";
import { paged } from "./lists.js";
import * as sessions from "./sessions.js";
import { nothing } from "./start.js";

const HEADS = ["Content", "Type", "Layer", "Key", "User", "Valid", ""];
const SHOWN = { "": "true now", history: "also past ones", archived: "faded ones" };

export async function list(view) {
  const which = view.query.get("show") ?? "";
  const choice = el("select", { onchange: (event) => { location.hash = event.target.value ? `#/records?show=${event.target.value}` : "#/records"; } },
    Object.entries(SHOWN).map(([value, text]) => el("option", { value, selected: value === which }, text)));
  view.page.append(el("div", { class: "row" }, el("h1", {}, "Records"), el("label", {}, "Show ", choice)));
  return paged(view, {
    path: "/v1/records",
    query: { user: view.user, ...(which && { [which]: "true" }) },
    heads: HEADS,
    label: "Records",
    noun: "record",
    none: () => (which ? quiet("No records here.") : nothing(view, "No records here.")),
    render: (each) => row(HEADS, [
      link(`#/records/${each.id}`, each.content),
      each.type, each.layer, each.key ?? "", whose(each), valid(each), marks(each),
    ], each.id),
  });
}

const whose = (record) => record.user ?? record.agent ?? record.level;

function valid({ valid_from: from, valid_to: to }) {
  if (to) return el("span", {}, when(from), " – ", when(to));
  return from ? el("span", {}, "since ", when(from)) : "";
}

function marks(record) {
  return el("span", {}, record.pinned && badge("pinned"), record.archived_at && badge("faded", "bad"), record.valid_to && badge("past", "bad"));
}

export async function one({ page, id, signal }) {
  const path = `/v1/records/${id}`;
  let seen = "", gone = false;
  async function load() {
    if (gone) return;
    const [record, { versions }] = await Promise.all([get(path, {}, signal), get(`${path}/history`, {}, signal)]);
    const now = JSON.stringify([record, versions]);
    if (now === seen) return;
    seen = now;
    page.replaceChildren(
      el("h1", {}, record.content),
      el("p", {}, badge(record.type), " ", badge(record.layer), " ", marks(record)),
      facts(record),
      ...source(record),
      el("h2", {}, "History"),
      history(versions),
      button("Forget this record", forget, { class: "danger" }),
    );
  }
  async function forget() {
    try {
      const would = await send("POST", "/v1/forget", { id, dry_run: true });
      if (!(await sure("Forget this record?", preview(would), "Forget it"))) return;
      gone = true;
      const { forgotten } = await send("DELETE", path);
      location.hash = "#/records";
      setTimeout(() => say(`${count(forgotten, "record")} forgotten`));
    } catch (error) {
      gone = false;
      complain(error);
    }
  }
  await load();
  return load;
}

// What goes, and what stays, in the words of a dry run.
function preview({ forgotten, counts, sentences, left }) {
  const lines = [`${count(forgotten, "record")} with history and every copy, for good.`];
  for (const sentence of sentences) lines.push(`From a message: “${sentence}”`);
  if (counts["note lines"]) lines.push(`${count(counts["note lines"], "line")} of notes.`);
  if (left.length) lines.push(`Still said in ${left.join(", ")}.`);
  return lines.join(" ");
}

function facts(record) {
  const told = {
    Key: record.key, User: whose(record), Tags: record.tags.join(", "), Valid: valid(record), Origin: record.origin,
    Confidence: record.confidence?.toFixed(2), Used: count(record.uses, "time"), Changed: when(record.updated_at),
  };
  return el("dl", {}, Object.entries(told).filter(([, value]) => value).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function source({ source: { session_id: id, sequences, speaker, sentence } }) {
  if (!id && !sentence) return [];
  const first = Math.min(...sequences), last = Math.max(...sequences);
  const target = sequences.length ? sessions.place(id, first, last) : sessions.place(id);
  return [el("h2", {}, "Where it comes from"), el("figure", {},
    sentence && el("blockquote", {}, sentence),
    el("figcaption", {}, speaker ?? "", " ", id && link(target, sequences.length ? `message ${sequences.join(", ")}` : "the session")))];
}

function history(versions) {
  const heads = ["Version", "It said", "Valid"];
  return table(heads, versions.map((each, at) => {
    const until = each.valid_to ?? versions[at + 1]?.valid_from;
    return row(heads, [String(each.version), each.content, valid({ ...each, valid_to: until })]);
  }), "History");
}
