// Sessions, and the messages of one.

import { get, send } from "./api.js";
import { badge, button, complain, count, el, link, quiet, row, table, when, words } from "./dom.js";
import { paged } from "./lists.js";
import { nothing } from "./start.js";

const HEADS = ["Session", "User", "Agent", "State", "Messages", "Last active"];
const PAGE = 50;

export function place(id, first, last) {
  return first ? `#/sessions/${id}?at=${first}${last > first ? `&to=${last}` : ""}` : `#/sessions/${id}`;
}

export async function list(view) {
  view.page.append(el("h1", {}, "Sessions"));
  return paged(view, {
    path: "/v1/sessions",
    query: { user: view.user },
    heads: HEADS,
    label: "Sessions",
    noun: "session",
    none: () => nothing(view, "No sessions here."),
    render: (each) => row(HEADS, [
      link(place(each.id), each.key),
      each.user, each.agent, badge(each.state.toLowerCase(), each.state),
      String(each.message_count), when(each.last_active_at),
    ], each.id),
  });
}

export async function one({ page, id, query, signal }) {
  const path = `/v1/sessions/${id}`;
  const at = Number(query.get("at")) || 0, to = Number(query.get("to")) || at;
  const info = await get(path, {}, signal);
  const oldest = info.last_sequence - info.message_count; // retention may have taken what was before
  let from = Math.max(0, at ? at - 10 : info.last_sequence - PAGE);
  const [{ summary }, first] = await Promise.all([
    get(`${path}/summary`, {}, signal),
    // Around the message that was asked for, or the latest.
    get(`${path}/messages`, { after: from, limit: PAGE }, signal),
  ]);
  const talk = el("ol", { class: "talk", "aria-label": "Messages" });
  const none = quiet("No messages.");
  let last = 0;

  const fetched = (given) => get(`${path}/messages`, { limit: PAGE, ...given }, signal);
  const guarded = (work) => async () => { try { await work(); } catch (error) { complain(error); } };
  const earlier = button("Earlier", guarded(async () => {
    const before = from + 1;
    from = Math.max(0, from - PAGE);
    const { items } = await fetched({ after: from, before });
    talk.prepend(...items.map(render));
    earlier.hidden = from <= oldest;
  }));
  const later = button("Later", guarded(() => onwards()));
  const render = (message) => said(message, message.sequence >= at && message.sequence <= to);

  async function onwards() {
    const { items, next } = await fetched({ after: last });
    add(items, next);
  }

  function add(items, next) {
    const unseen = items.filter((each) => each.sequence > last); // two may have asked at once
    last = unseen.at(-1)?.sequence ?? last;
    talk.append(...unseen.map(render));
    later.hidden = !next;
    none.hidden = last > 0;
  }

  const state = el("span", {}), facts = el("p", { class: "note" });
  function told(now) {
    state.replaceChildren(badge(now.state.toLowerCase(), now.state));
    facts.replaceChildren(`${now.user} with ${now.agent} · ${count(now.message_count, "message")} · last active `, when(now.last_active_at));
  }
  told(info);
  add(first.items, first.next);
  earlier.hidden = from <= oldest;
  page.append(el("h1", {}, info.key, " ", state), facts, asking(path, signal), ...describeSummary(summary), earlier, talk, none, later);
  return async () => {
    told(await get(path, {}, signal));
    if (later.hidden) await onwards();
  };
}

function said(message, aimed) {
  const calls = message.tool_calls.map((call) => el("pre", {}, `${call.name}(${JSON.stringify(call.arguments)})`));
  const classes = `${message.role} ${aimed ? "aim" : ""}`;
  return el("li", { class: classes, "data-sequence": message.sequence, "aria-current": aimed && "true" },
    el("p", { class: "from" }, el("b", {}, message.name ?? message.role), ` · ${message.sequence} · `, when(message.created_at),
      message.is_error && badge("error", "bad")),
    el("p", { class: "text" }, words(message.content)), calls);
}

function describeSummary(summary) {
  if (!summary) return [];
  const head = `Summary of ${count(summary.message_count, "message")}, up to message ${summary.upper_sequence}`;
  return [el("details", {}, el("summary", {}, head), el("p", { class: "text" }, summary.text))];
}

// What would go into the next prompt

function asking(path, signal) {
  const question = el("input", { name: "query", autocomplete: "off", placeholder: "the next message" });
  const budget = el("input", { name: "tokens", type: "number", min: 200, max: 10000000, placeholder: "default" });
  const out = el("div", { "aria-live": "polite" });
  async function ask(event) {
    event.preventDefault();
    const body = { query: question.value };
    if (budget.value) body.max_tokens = Number(budget.value);
    out.replaceChildren(quiet("Loading…"));
    try {
      out.replaceChildren(...context(await send("POST", `${path}/context`, body, signal)));
    } catch (error) {
      out.replaceChildren();
      complain(error);
    }
  }
  const form = el("form", { onsubmit: ask },
    el("label", { class: "wide" }, "Context for", question), el("label", {}, "Tokens at most", budget), el("button", {}, "Show"));
  return el("details", { class: "context" }, el("summary", {}, "Context for the next prompt"), form, out);
}

function context({ tokens, sections, dropped, messages }) {
  const parts = Object.entries(sections).filter(([, text]) => text).map(([name, text]) =>
    el("details", { open: true }, el("summary", {}, name), el("pre", {}, text)));
  const heads = ["Left out", "Reason"];
  const rows = dropped.map((each) => row(heads, [each.what, each.reason]));
  return [
    el("p", {}, el("b", {}, count(tokens, "token")), ` in ${count(messages.length, "message")}`),
    ...parts,
    rows.length ? table(heads, rows, "What was left out") : quiet("Nothing was left out."),
  ];
}
