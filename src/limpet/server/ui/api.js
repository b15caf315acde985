// Calls of the API, the key for them, and its live events.

const KEY = "limpet.key";

export class Problem extends Error {
  constructor(status, detail, keyless = false) {
    super(detail);
    this.status = status;
    this.keyless = keyless;
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (secret) => sessionStorage.setItem(KEY, secret),
  remove: () => sessionStorage.removeItem(KEY),
};

let refused = () => {};
export const onRefused = (call) => { refused = call; };

export function address(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

async function answered(path, { headers, ...rest }) {
  const secret = key.get();
  const all = secret ? { ...headers, Authorization: `Bearer ${secret}` } : headers;
  let response;
  try {
    response = await fetch(path, { ...rest, headers: all });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server cannot be reached. Does it still run?");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  if (response.status === 401) refused();
  throw new Problem(response.status, body.detail ?? `The server answered ${response.status}.`, response.status === 401 && !secret);
}

export async function get(path, query, signal) {
  return (await answered(address(path, query), { signal })).json();
}

export async function send(method, path, body, signal) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const text = body === undefined ? undefined : JSON.stringify(body);
  return (await answered(path, { method, headers, body: text, signal })).json();
}

const pause = (ms, signal) => new Promise((done) => {
  const timer = setTimeout(done, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
});

// EventSource cannot send a key, so the stream is read by hand, with a key or without one.
export async function listen(query, signal, { open, change, lost }) {
  let last, again = false;
  while (!signal.aborted) {
    try {
      const headers = last ? { "Last-Event-ID": last } : {};
      const response = await answered(address("/v1/events", query), { headers, signal });
      open(again);
      again = true;
      for await (const event of events(response.body)) {
        last = event.id ?? last;
        if (event.data) change(event.event, JSON.parse(event.data));
      }
    } catch (error) {
      if (signal.aborted || error.status === 401 || error.status === 403) return;
    }
    lost();
    await pause(2000, signal);
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n").filter((line) => line && !line.startsWith(":"));
      yield Object.fromEntries(lines.map((line) => line.split(/: ?(.*)/s, 2)));
    }
  }
}
