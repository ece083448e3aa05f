// A page that waits for something is fetched again, and the parts that changed are put in place.
// Parts are elements with data-part; the page waits while any element has data-waiting.

const FIRST_MS = 1_000;
const LONGEST_MS = 8_000;

function waiting() {
  return document.querySelector("[data-waiting]") !== null;
}

function renew(fresh) {
  for (const part of document.querySelectorAll("[data-part]")) {
    const other = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
    // A part in which somebody is at work, by keyboard or pointer, is left alone until they are done.
    const busy = part.contains(document.activeElement);
    if (other && !busy && other.outerHTML !== part.outerHTML) {
      part.replaceWith(document.adoptNode(other));
    }
  }
}

async function look() {
  const answer = await fetch(window.location.href, {
    headers: { Accept: "text/html" },
    signal: AbortSignal.timeout(20_000),
  });
  if (answer.redirected) {
    window.location.reload(); // Signed out in the meantime: the server leads on.
  } else if (answer.ok) {
    renew(new DOMParser().parseFromString(await answer.text(), "text/html"));
  }
}

async function follow() {
  let pause = FIRST_MS;
  while (waiting()) {
    await new Promise((resolve) => window.setTimeout(resolve, pause));
    pause = Math.min(LONGEST_MS, pause * 1.25);
    if (document.visibilityState === "visible") {
      try {
        await look();
      } catch {
        // No answer this time; the next look may have one.
      }
    }
  }
}

follow();
