// The live page: follows the session's log, keeps header, plot and files up to date.

import { keepDrawn, speedupPlot } from "./chart.js";
import { chosenFile, prepareCode } from "./code.js";
import { EventStream } from "./events.js";
import { Timeline, duration, interval, ratio } from "./timeline.js";

const AT_END_PX = 48;
const ENDED = ["stopped", "finished", "failed", "crashed"];

const page = document.querySelector("[data-live]");
const data = JSON.parse(document.getElementById("live-data").textContent);
const lane = document.querySelector("[data-lane]");
const toLatest = document.querySelector("[data-to-latest]");
const find = (name) => page.querySelector(`[data-show="${name}"]`);
const timeline = new Timeline(document.querySelector("[data-timeline]"), {
  words: data.words,
  icons: page.dataset.icons,
});

// Where the reader is. On wide screens the lane scrolls by itself, else the document does.
function scroller() {
  const own = getComputedStyle(lane).overflowY === "auto";
  return own ? lane : document.scrollingElement;
}

function atEnd() {
  const view = scroller();
  return view.scrollHeight - view.scrollTop - view.clientHeight < AT_END_PX;
}

function goToEnd() {
  const view = scroller();
  view.scrollTop = view.scrollHeight;
  toLatest.hidden = true;
}

// Change the page; a reader at the end stays at the end, any other reader stays where they are.
function change(work) {
  const follow = atEnd();
  work();
  if (follow) {
    goToEnd();
  } else {
    toLatest.hidden = false;
  }
}

const onEvent = {
  "session.state": ({ body, at }) => showState(body.state, body.reason, at),
  "turn.started": ({ body }) => (find("turn").textContent = `Turn ${body.turn}`),
  snapshot: ({ body }) => loadFiles(body.digest),
  evaluation: ({ body }) => addPoint(body),
  best: ({ body }) => showBest(body),
  baseline: ({ body }) => showBaseline(body),
};

function showState(state, reason, at) {
  data.state = state;
  timeline.badge(find("state").querySelector("[data-badge]"), "session", state);
  find("reason").textContent = reason ?? "";
  if (ENDED.includes(state)) {
    data.ended = at;
    find("controls").querySelector("[data-stop]")?.remove();
    showLink("live");
    showThatNothingFollows();
  }
  if (data.started === null && state === "running") {
    data.started = at;
  }
  showElapsed();
}

// What an ended session still lacks does not come any more.
function showThatNothingFollows() {
  const noFiles = find("no-files");
  if (noFiles) {
    noFiles.textContent = "No files were written.";
  }
  // A session that failed before it began had a problem that was refused.
  if (data.started === null && data.state === "failed") {
    find("change-file").hidden = false;
    if (data.baseline === null) {
      find("compile-interval").textContent = "not measured";
    }
  }
}

function showElapsed() {
  if (data.started === null) {
    return;
  }
  const end = data.ended === null ? Date.now() : Date.parse(data.ended);
  find("elapsed").textContent = duration(Math.max(0, end - Date.parse(data.started)));
}

function showBest(body) {
  find("best").textContent = ratio(body.speedup);
  document.title = `${ratio(body.speedup)} · ${data.title}`;
  find("best-interval").textContent = interval(body.low, body.high);
  const verdict = find("verdict");
  verdict.href = `/evaluations/${body.evaluation}/`;
  verdict.hidden = false;
  find("download").hidden = false;
}

function showBaseline(body) {
  if (body.compile_over_eager) {
    data.baseline = { median: body.compile_over_eager, low: body.low, high: body.high };
    find("compile").textContent = ratio(body.compile_over_eager);
    find("compile-interval").textContent = interval(body.low, body.high);
    drawPlot();
  } else {
    find("compile").textContent = "–";
    find("compile-interval").textContent = "not measured";
  }
}

function addPoint(body) {
  if (body.speedup || !["passed", "unmeasured"].includes(body.status)) {
    data.points.push(body);
    drawPlot();
  }
}

const plot = document.querySelector("[data-plot]");

function drawPlot() {
  speedupPlot(plot, data.points, data.baseline);
}

// The files are made by the server; only the newest of several requests is shown. A snapshot is
// announced a moment before its files are stored, so a miss is asked again.
const FILE_TRIES = 10;
let wanted = "";

async function loadFiles(digest) {
  if (!digest || digest === wanted) {
    return;
  }
  wanted = digest;
  for (let tries = 0; tries < FILE_TRIES && wanted === digest; tries += 1) {
    if (await loadOnce(digest)) {
      return;
    }
    await new Promise((resolve) => window.setTimeout(resolve, 250 * (tries + 1)));
  }
}

// True when there is no more to be tried for this digest.
async function loadOnce(digest) {
  try {
    const answer = await fetch(`${page.dataset.filesUrl}?snapshot=${digest}`);
    if (answer.redirected) {
      return true; // Signed out: the socket says so.
    }
    const stored = answer.status === 200;
    if (stored) {
      const text = await answer.text();
      if (wanted === digest) {
        showFiles(new DOMParser().parseFromString(text, "text/html").body);
      }
    }
    return stored;
  } catch {
    return false; // No network.
  }
}

function showFiles(fresh) {
  const place = document.querySelector("[data-files]");
  const chosen = chosenFile(place);
  const top = place.querySelector(".code:not([hidden])")?.scrollTop ?? 0;
  place.replaceChildren(...fresh.children);
  prepareCode(place, chosen);
  if (chosen && chosenFile(place) === chosen) {
    place.querySelector(".code:not([hidden])").scrollTop = top;
  }
}

const LINK_WORDS = {
  live: ["", ""],
  reconnecting: ["busy", "Reconnecting; nothing is lost"],
  http: ["clock", "Live over HTTP, without a socket"],
  "signed-out": ["alert", "Signed out: reload the page to sign in again"],
  gone: ["alert", "This session is no longer available to you"],
};

function showLink(state) {
  const [icon, text] = LINK_WORDS[state];
  const place = find("link");
  place.hidden = text === "";
  place.dataset.tone = icon === "busy" ? "live" : "warn";
  if (text) {
    place.querySelector("use").setAttribute("href", `${page.dataset.icons}#${icon}`);
    place.querySelector("span").textContent = text;
  }
}

// The cursor is kept for this tab: after a refresh a line shows what came while nobody looked.
const SEEN = `warpsmith.seen.${page.dataset.session}`;

function remember(seq) {
  try {
    sessionStorage.setItem(SEEN, seq);
  } catch {
    // Without storage the line is not drawn; nothing else depends on it.
  }
}

function markUnseen() {
  let seen = null;
  try {
    seen = sessionStorage.getItem(SEEN);
  } catch {
    return;
  }
  const items = [...document.querySelectorAll("[data-timeline] [data-seq]")];
  const first = items.find((item) => Number(item.dataset.seq) > Number(seen));
  if (seen === null || !first) {
    return;
  }
  const line = document.createElement("p");
  line.className = "since";
  line.textContent = "New since you last looked";
  first.before(line);
}

function receive(events) {
  change(() => {
    for (const event of events) {
      timeline.apply(event);
      onEvent[event.kind]?.(event);
    }
  });
  const last = events[events.length - 1].seq;
  page.dataset.seq = last;
  remember(last);
}

const stream = new EventStream({
  socketUrl: page.dataset.socketUrl,
  eventsUrl: page.dataset.eventsUrl,
  after: Number(page.dataset.seq),
  handlers: {
    events: receive,
    delta: ({ turn, text }) => change(() => timeline.delta(turn, text)),
    link: showLink,
  },
});

// Stopping needs no reload; the log tells when it has happened.
async function stop(event) {
  event.preventDefault();
  const form = event.currentTarget;
  form.querySelector("button").disabled = true;
  try {
    const answer = await fetch(form.action, { method: "POST", body: new FormData(form), redirect: "manual" });
    if (answer.type !== "opaqueredirect") {
      form.submit(); // Let the server say what is wrong.
    }
  } catch {
    form.querySelector("button").disabled = false; // No network: the person may press again.
  }
}

document.querySelector("[data-stop]")?.addEventListener("submit", stop);
markUnseen();
remember(page.dataset.seq);
keepDrawn(plot, drawPlot);
showElapsed();
window.setInterval(showElapsed, 1000);
toLatest.addEventListener("click", goToEnd);
lane.addEventListener("scroll", () => atEnd() && (toLatest.hidden = true), { passive: true });
document.addEventListener("scroll", () => atEnd() && (toLatest.hidden = true), { passive: true });
// On a phone the header comes first; there the reader goes to the end, not the page.
if (!ENDED.includes(data.state) && scroller() === lane) {
  goToEnd();
}
stream.start();
