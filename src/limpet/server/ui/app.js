// Which view is shown: the address behind # says so, so that reload and back work.

import { key, listen, onRefused } from "./api.js";
import { $, button, complain, el, known, quiet, say } from "./dom.js";
import * as records from "./records.js";
import * as search from "./search.js";
import * as sessions from "./sessions.js";
import * as start from "./start.js";

const USER = "limpet.user";
const VIEWS = { sessions: [sessions.list, sessions.one], records: [records.list, records.one], search: [search.results], start: [start.steps] };

let leaving = new AbortController();
let refresh = null;

function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s, 2);
  const [name = "", id] = path.split("/");
  return { name: name || "sessions", id, query: new URLSearchParams(query) };
}

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { name, id, query } = place();
  const view = VIEWS[name]?.[id ? 1 : 0];
  const page = el("div", {});
  refresh = null;
  stale = false;
  $("banner").hidden = true;
  $("main").replaceChildren(quiet(view ? "Loading…" : "There is no such page."));
  for (const each of document.querySelectorAll("nav a")) {
    if (each.hash === `#/${name}`) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  if (name === "search") $("q").value = query.get("q") ?? "";
  if (!view) return;
  try {
    const again = await view({ page, id, query, signal, user: user(), choose });
    if (signal.aborted) return;
    refresh = again ?? null;
    $("main").replaceChildren(page);
    if (stale) refreshed();
    page.querySelector(".aim")?.scrollIntoView({ block: "center" });
  } catch (error) {
    if (signal.aborted) return;
    if (error.keyless) { $("main").replaceChildren(quiet("This server asks for an API key: limpet api-keys create makes one.")); return; }
    complain(error);
    $("main").replaceChildren(quiet("This could not be loaded."), button("Try again", show));
  }
}

function go(hash) {
  if (location.hash === hash) show();
  else location.hash = hash;
}

// Whose memory

const user = () => $("user").value.trim();

function choose(name) {
  $("user").value = name;
  localStorage.setItem(USER, name);
  follow();
}

// What changes elsewhere

let following = new AbortController();
let stale = false;
let busy = false;

function follow() {
  following.abort();
  following = new AbortController();
  const live = $("live");
  const tell = (text, kind) => { live.textContent = text; live.className = kind; };
  listen(user() ? { user: user() } : {}, following.signal, {
    open: (again) => { tell("live", "on"); if (again) refreshed(); },
    lost: () => tell("offline", "off"),
    change: (_, thing) => {
      known(thing.user);
      tell(`updated ${new Date().toLocaleTimeString()}`, "on");
      refreshed();
    },
  });
}

// One at a time, and once for changes that come together; a view that is still loading is asked when it is there.
async function refreshed() {
  stale = true;
  if (busy) return;
  busy = true;
  while (stale && refresh) {
    await new Promise((done) => setTimeout(done, 200));
    stale = false;
    const { signal } = leaving;
    try {
      await refresh?.();
    } catch (error) {
      if (!signal.aborted) complain(error);
    }
  }
  busy = false;
}

// The forms of the head

const explained = () => document.body.classList.toggle("explained", $("explain").checked);

$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  go(search.place($("q").value.trim()));
});
$("explain").addEventListener("change", explained);
$("user").addEventListener("change", () => { choose(user()); show(); });
$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  const secret = $("secret").value.trim();
  $("secret").value = "";
  if (!/^[\x21-\x7e]+$/.test(secret)) { complain(new Error("An API key begins with lim_")); return; }
  key.set(secret);
  entered();
});
$("leave").addEventListener("click", () => { key.remove(); entered(); });
$("skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });

function entered() {
  $("key").hidden = true;
  $("leave").hidden = !key.get();
  $("users").replaceChildren();
  follow();
  show();
}

onRefused(() => {
  key.remove();
  $("leave").hidden = true;
  if ($("key").hidden) { $("key").hidden = false; $("secret").focus(); }
});

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || $("ask").open;
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  $("q").focus();
  $("q").select();
});
addEventListener("hashchange", () => { say(""); show(); });

explained();
$("user").value = localStorage.getItem(USER) ?? "";
entered();
