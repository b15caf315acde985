// What to do with an empty store, and the first steps with one's own.

import { get, key, send } from "./api.js";
import { button, complain, el, quiet, say } from "./dom.js";

// For a list without entries: the whole welcome if there is nothing at all.
export async function nothing(view, text) {
  return (await isEmpty(view.signal)) ? welcome(view) : quiet(text);
}

async function isEmpty(signal) {
  const [sessions, records] = await Promise.all([
    get("/v1/sessions", { limit: 1 }, signal), get("/v1/records", { limit: 1, history: true }, signal),
  ]);
  return !sessions.items.length && !records.items.length;
}

function welcome({ choose }) {
  const load = button("Load a sample conversation", async () => {
    load.disabled = true;
    try {
      const { user, question } = await send("POST", "/v1/sample");
      choose(user);
      say("The sample is loaded.");
      location.hash = `#/search?${new URLSearchParams({ q: question })}`;
    } catch (error) {
      complain(error);
      load.disabled = false;
    }
  });
  return el("section", { class: "welcome" },
    el("h2", {}, "Nothing is kept here yet"),
    el("p", {}, "Sessions hold what was said between users and agents, message by message; records are the facts drawn from it or told directly. Once a program keeps something, it appears here by itself, and the box above finds it."),
    load, ...snippets());
}

export async function steps({ page, signal, choose }) {
  const first = await isEmpty(signal).catch(() => false);
  page.append(el("h1", {}, "First steps"), ...(first ? [welcome({ choose })] : snippets()));
}

function snippets() {
  return [el("h2", {}, "Keep something of your own"), ...Object.entries(written()).map(([name, text]) => {
    const code = el("pre", { tabindex: 0, "aria-label": name }, text);
    return el("section", { class: "snippet" }, el("div", { class: "row" }, el("h3", {}, name), copier(code)), code);
  })];
}

function copier(code) {
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      copy.textContent = "Copied";
    } catch {
      // Only pages from this machine or over HTTPS may write to the clipboard.
      getSelection().selectAllChildren(code);
      copy.textContent = "Selected: press Ctrl-C";
    }
  }, { class: "quiet" });
  return copy;
}

function written() {
  const { origin } = location, keyed = key.get() !== null;
  const fact = { user: "me", key: "dog_name", content: "My dog is called Biscuit" };
  const mcp = { type: "http", url: `${origin}/mcp` };
  if (keyed) mcp.headers = { Authorization: "Bearer ${LIMPET_API_KEY}" };
  return {
    "curl": `curl ${origin}/v1/records \\\n${keyed ? '  -H "Authorization: Bearer $LIMPET_API_KEY" \\\n' : ""}  -H "Content-Type: application/json" \\\n  -d '${JSON.stringify(fact)}'`,
    "Python": `import json${keyed ? ", os" : ""}, urllib.request\n\nfact = ${JSON.stringify(fact)}\nheaders = {"Content-Type": "application/json"}\n${keyed ? 'headers["Authorization"] = "Bearer " + os.environ["LIMPET_API_KEY"]\n' : ""}request = urllib.request.Request("${origin}/v1/records", json.dumps(fact).encode(), headers)\nprint(json.load(urllib.request.urlopen(request)))`,
    "MCP": JSON.stringify({ mcpServers: { memory: mcp } }, null, 2),
  };
}
