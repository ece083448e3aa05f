// A durable event log, followed from a cursor. Events come over a WebSocket; where that is not
// possible, over HTTP from the same rows. Every event is handed on once, in order, without gaps.

const SILENCE_MS = 45_000; // The server pings more often than this; longer silence is a dead link.
const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 15_000;
const POLL_SECONDS = 20;
const SIGNED_OUT = 4401;
const GONE = 4404;

export class EventStream {
  // `handlers`: events(list), delta({turn, text}), link(state) where state is one of
  // `live`, `reconnecting`, `http`, `signed-out`, `gone`.
  constructor({ socketUrl, eventsUrl, after, handlers }) {
    this.socketUrl = socketUrl;
    this.eventsUrl = eventsUrl;
    this.cursor = after;
    this.handlers = handlers;
    this.socket = null;
    this.failures = 0;
    this.ended = false;
    this.heardAt = 0;
    this.timer = 0;
    this.polling = false;
  }

  start() {
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") {
        this.wake();
      }
    });
    window.addEventListener("online", () => this.wake());
    window.addEventListener("pageshow", (event) => event.persisted && this.wake());
    window.setInterval(() => this.checkSilence(), 5_000);
    this.connect();
  }

  // The reader is back: look at once instead of waiting for the next try.
  wake() {
    if (this.ended) {
      return;
    }
    this.checkSilence();
    if (!this.socket) {
      this.failures = 0;
      this.connect();
    }
  }

  checkSilence() {
    const open = this.socket && this.socket.readyState === WebSocket.OPEN;
    if (open && Date.now() - this.heardAt > SILENCE_MS) {
      this.drop(this.socket);
      this.retry();
    }
  }

  connect() {
    window.clearTimeout(this.timer);
    if (this.socket || this.ended) {
      return;
    }
    const url = new URL(this.socketUrl, window.location.href);
    url.protocol = url.protocol.replace("http", "ws");
    url.searchParams.set("after", this.cursor);
    const socket = new WebSocket(url);
    this.socket = socket;
    this.heardAt = Date.now();
    socket.onopen = () => {
      this.heardAt = Date.now();
      this.failures = 0;
      this.handlers.link("live");
    };
    socket.onmessage = (message) => this.receive(socket, message.data);
    socket.onclose = (event) => {
      if (this.socket === socket) {
        this.drop(socket);
        this.closed(event.code);
      }
    };
  }

  drop(socket) {
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    this.socket = null;
  }

  closed(code) {
    if (code === SIGNED_OUT || code === GONE) {
      this.end(code === GONE ? "gone" : "signed-out");
      return;
    }
    this.retry();
  }

  end(state) {
    this.ended = true;
    window.clearTimeout(this.timer);
    this.handlers.link(state);
  }

  retry() {
    this.handlers.link("reconnecting");
    const ceiling = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.failures);
    this.failures += 1;
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.connect(), ceiling * (0.5 + Math.random() / 2));
    this.poll();
  }

  receive(socket, text) {
    this.heardAt = Date.now();
    const message = JSON.parse(text);
    if (message.type === "events") {
      if (!this.accept(message.events)) {
        this.drop(socket);
        this.retry();
      }
    } else if (message.type === "delta") {
      this.handlers.delta(message);
    }
  }

  // Hand on what is new. False when something between the cursor and these events is missing.
  accept(events) {
    const fresh = events.filter((event) => event.seq > this.cursor);
    if (fresh.length === 0) {
      return true;
    }
    if (fresh[0].seq !== this.cursor + 1) {
      return false;
    }
    this.cursor = fresh[fresh.length - 1].seq;
    this.handlers.events(fresh);
    return true;
  }

  // Read over HTTP while there is no socket; the server holds the answer until something happens.
  async poll() {
    if (this.polling) {
      return;
    }
    this.polling = true;
    try {
      let wait = 0;
      while (!this.ended && !this.isLive()) {
        if (!(await this.pollOnce(wait))) {
          break;
        }
        if (wait > 0 && !this.isLive()) {
          this.handlers.link("http");
        }
        wait = POLL_SECONDS;
      }
    } finally {
      this.polling = false;
    }
  }

  isLive() {
    return this.socket !== null && this.socket.readyState === WebSocket.OPEN;
  }

  async pollOnce(wait) {
    const url = new URL(this.eventsUrl, window.location.href);
    url.searchParams.set("after", this.cursor);
    url.searchParams.set("wait", wait);
    try {
      const answer = await fetch(url, {
        headers: { Accept: "application/json" },
        signal: AbortSignal.timeout((wait + 10) * 1000),
      });
      if (answer.status === 401 || answer.status === 403) {
        this.end("signed-out");
        return false;
      }
      if (answer.status === 404) {
        this.end("gone");
        return false;
      }
      if (!answer.ok) {
        return false;
      }
      const body = await answer.json();
      this.accept(body.events);
      return !body.done;
    } catch {
      return false; // No network: the next try of the socket will poll again.
    }
  }
}
