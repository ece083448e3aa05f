// Draws durable events into the page that the server made. The markup of every item comes from a
// <template> of the same server template, so server and script draw the same.

export class Timeline {
  // `root` holds the turns; `words` says how states are shown; `icons` is the address of the symbols.
  constructor(root, { words, icons }) {
    this.root = root;
    this.words = words;
    this.icons = icons;
    this.typing = new Map();
  }

  // Apply one event. Kinds that this page does not know yet are left out, not guessed at.
  apply(event) {
    const draw = {
      "session.state": () => this.state(event),
      "turn.started": () => this.turnStarted(event),
      "turn.finished": () => this.turnFinished(event),
      message: () => this.message(event),
      "tool.started": () => this.toolStarted(event),
      "tool.finished": () => this.toolFinished(event),
      snapshot: () => this.snapshot(event),
      evaluation: () => this.evaluation(event),
      best: () => this.best(event),
      baseline: () => this.baseline(event),
    }[event.kind];
    draw?.();
  }

  copy(name, event) {
    const part = document.getElementById(`part-${name}`).content.firstElementChild.cloneNode(true);
    if (event) {
      part.dataset.seq = event.seq;
      part.dataset.at = event.at;
    }
    return part;
  }

  fill(part, name, text) {
    const place = part.querySelector(`[data-fill="${name}"]`);
    place.textContent = text;
    return place;
  }

  badge(badge, family, state) {
    const word = this.words[family][state] ?? { word: state, tone: "plain", icon: "minus" };
    badge.dataset.tone = word.tone;
    badge.querySelector("use").setAttribute("href", `${this.icons}#${word.icon}`);
    badge.querySelector("span").textContent = word.word;
  }

  turn(number, event) {
    let turn = this.root.querySelector(`[data-turn="${number}"]`);
    if (!turn) {
      turn = this.copy("turn", event);
      turn.dataset.turn = number;
      this.fill(turn, "number", number);
      this.root.append(turn);
    }
    return turn;
  }

  // A turn that was broken off begins again.
  turnStarted(event) {
    this.interrupt();
    this.turn(event.body.turn, event);
  }

  // The list that items of a turn go to; what belongs to no turn goes below the last one.
  place(event, item) {
    const { turn } = event.body;
    if (turn === undefined || turn === null || turn === 0) {
      this.root.append(item);
    } else {
      const typing = this.turn(turn, event).querySelector("[data-typing]");
      typing.before(item);
    }
    return item;
  }

  // Text while it is being written. It may come late: what the author said in full stands already.
  delta(turn, text) {
    const lane = this.turn(turn);
    if (lane.querySelector('.message[data-role="author"]')) {
      return;
    }
    const place = lane.querySelector("[data-typing]");
    const soFar = (this.typing.get(turn) ?? "") + text;
    this.typing.set(turn, soFar);
    place.textContent = soFar;
  }

  settle(turn) {
    this.typing.delete(turn);
    const place = this.root.querySelector(`[data-turn="${turn}"] [data-typing]`);
    if (place) {
      place.textContent = "";
    }
  }

  message(event) {
    this.settle(event.body.turn);
    if (event.body.role === "system") {
      // The workshop speaks when the process that ran the session is gone, its tools with it.
      this.interrupt();
    }
    const item = this.copy("message", event);
    item.dataset.role = event.body.role;
    this.fill(item, "who", WHO[event.body.role] ?? event.body.role);
    this.fill(item, "text", event.body.text);
    this.place(event, item);
  }

  toolStarted(event) {
    const { call, tool, arguments: given } = event.body;
    const item = this.copy("tool", event);
    item.dataset.call = call;
    this.fill(item, "name", tool);
    this.fill(item, "preview", preview(given));
    this.fill(item, "arguments", asText(given));
    this.badge(item.querySelector("[data-badge]"), "tool", "running");
    this.place(event, item);
  }

  toolFinished(event) {
    const { call, ok, summary, duration_ms: took } = event.body;
    let item = this.toolOf(event, call);
    if (!item) {
      this.toolStarted({ ...event, body: { ...event.body, arguments: {} } });
      item = this.toolOf(event, call);
    }
    this.badge(item.querySelector("[data-badge]"), "tool", ok ? "ok" : "failed");
    this.fill(item, "took", duration(took));
    this.fill(item, "summary", summary).hidden = !summary;
  }

  toolOf(event, call) {
    const turn = this.turn(event.body.turn, event);
    return [...turn.querySelectorAll("[data-call]")].findLast((item) => item.dataset.call === call);
  }

  snapshot(event) {
    const files = event.body.files ?? [];
    this.note(event, "file", files.length ? `Changed ${files.join(", ")}` : "Files unchanged");
  }

  evaluation(event) {
    const { evaluation, status, summary, speedup, low, high } = event.body;
    const item = this.copy("outcome", event);
    this.badge(item.querySelector("[data-badge]"), "verdict", status);
    this.fill(item, "speed", speedup ? ratio(speedup) : "").hidden = !speedup;
    this.fill(item, "interval", speedup ? `(${interval(low, high)})` : "").hidden = !speedup;
    this.fill(item, "text", summary ?? "");
    const link = item.querySelector("a");
    link.hidden = !evaluation;
    link.setAttribute("href", link.dataset.href.replace("ID", evaluation));
    this.place(event, item);
  }

  best(event) {
    for (const old of this.root.querySelectorAll(".turn.is-best")) {
      old.classList.remove("is-best");
    }
    this.turn(event.body.turn, event).classList.add("is-best");
  }

  baseline(event) {
    const { compile_over_eager: gain, low, high, status } = event.body;
    const text = gain
      ? `torch.compile alone reaches ${ratio(gain)} (${interval(low, high)}) against eager`
      : `torch.compile was not measured: ${this.words.verdict[status]?.word ?? status}`;
    this.note({ ...event, body: {} }, "clock", text);
  }

  state(event) {
    const { state, reason } = event.body;
    const word = this.words.session[state] ?? { word: state, icon: "minus" };
    this.note(event, word.icon, reason ? `${word.word}: ${reason}` : word.word);
    if (ENDED.includes(state)) {
      this.interrupt();
    }
  }

  interrupt() {
    for (const badge of this.root.querySelectorAll('[data-call] [data-badge="tool"][data-tone="live"]')) {
      this.badge(badge, "tool", "interrupted");
    }
  }

  note(event, icon, text) {
    const item = this.copy("note", event);
    item.querySelector("use").setAttribute("href", `${this.icons}#${icon}`);
    this.fill(item, "text", text);
    this.place(event, item);
  }

  turnFinished(event) {
    const { turn, text } = event.body;
    this.settle(turn);
    const place = this.turn(turn, event);
    if (text && !place.querySelector('.message[data-role="author"]')) {
      const item = this.copy("message", event);
      item.dataset.role = "author";
      this.fill(item, "text", text);
      place.querySelector(".turn-items").prepend(item);
    }
    const started = Date.parse(place.dataset.at);
    this.fill(place, "took", Number.isNaN(started) ? "" : duration(Date.parse(event.at) - started));
  }
}

const ENDED = ["stopped", "finished", "failed", "crashed"];
const WHO = { author: "Author", user: "Task", person: "Person", system: "Workshop", tool: "Tool" };

export function ratio(value) {
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)}×`;
}

export function interval(low, high) {
  if (!low || !high) {
    return "";
  }
  let places = high < 10 ? 2 : high < 100 ? 1 : 0;
  if (low.toFixed(places) === high.toFixed(places)) {
    places += 1;
  }
  return `${low.toFixed(places)} to ${high.toFixed(places)}`;
}

export function duration(ms) {
  if (ms === undefined || ms === null || Number.isNaN(ms)) {
    return "";
  }
  if (ms < 1000) {
    return `${Math.round(ms)} ms`;
  }
  const seconds = ms / 1000;
  if (seconds < 60) {
    return `${seconds < 9.95 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  }
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  const rest = String(whole % 60).padStart(2, "0");
  return minutes < 60 ? `${minutes} min ${rest} s` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

// All arguments as text: one line each, and text of several lines as it is.
function asText(given) {
  if (typeof given !== "object" || given === null) {
    return typeof given === "string" ? given : "";
  }
  const lines = Object.entries(given).map(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return text.includes("\n") ? `${name}:\n${text}` : `${name}: ${text}`;
  });
  return lines.join("\n") || "no arguments";
}

// The one argument that says most, on one line.
function preview(given) {
  if (typeof given === "string") {
    return given.slice(0, 160);
  }
  const values = given ?? {};
  const first = values.command ?? values.path ?? values.pattern ?? Object.values(values)[0] ?? "";
  const text = typeof first === "string" ? first : JSON.stringify(first);
  return text.replace(/\s+/g, " ").slice(0, 160);
}
