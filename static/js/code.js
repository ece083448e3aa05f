// File tabs over server-made source. Without this script all files stand below one another.

// Prepare every code panel below `root`; `chosen` is the name of the file to show first.
export function prepareCode(root, chosen = "") {
  for (const panel of root.querySelectorAll("[data-code-panel]")) {
    preparePanel(panel, chosen);
  }
}

export function chosenFile(root) {
  return root.querySelector('[data-code-panel] .tab[aria-selected="true"]')?.dataset.path ?? "";
}

function preparePanel(panel, chosen) {
  const tabs = [...panel.querySelectorAll(".tab")];
  const list = panel.querySelector(".tabs");
  list.setAttribute("role", "tablist");
  for (const tab of tabs) {
    const file = document.getElementById(tab.hash.slice(1));
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", file.id);
    file.setAttribute("role", "tabpanel");
    tab.addEventListener("click", (event) => {
      event.preventDefault();
      select(tabs, tab);
    });
  }
  list.addEventListener("keydown", (event) => moveByKey(event, tabs));
  const first = tabs.find((tab) => tab.dataset.path === chosen) ?? tabs[0];
  if (first) {
    select(tabs, first);
  }
}

function select(tabs, chosen) {
  for (const tab of tabs) {
    const on = tab === chosen;
    tab.setAttribute("aria-selected", on);
    tab.tabIndex = on ? 0 : -1;
    document.getElementById(tab.hash.slice(1)).hidden = !on;
  }
}

function moveByKey(event, tabs) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const at = tabs.indexOf(document.activeElement);
  if (step && at >= 0) {
    const next = tabs[(at + step + tabs.length) % tabs.length];
    select(tabs, next);
    next.focus();
    event.preventDefault();
  }
}

// A link to a line opens the file that the line is in and marks the line.
function showTarget() {
  const id = decodeURIComponent(window.location.hash.slice(1));
  const line = id ? document.getElementById(id) : null;
  const file = line?.closest("[data-file]");
  if (!file) {
    return;
  }
  const panel = file.closest("[data-code-panel]");
  const tab = panel?.querySelector(`.tab[href="#${CSS.escape(file.id)}"]`);
  if (tab) {
    select([...panel.querySelectorAll(".tab")], tab);
  }
  document.querySelectorAll(".code-line.marked").forEach((old) => old.classList.remove("marked"));
  line.classList.add("marked");
  line.scrollIntoView({ block: "center" });
}

window.addEventListener("hashchange", showTarget);
document.addEventListener("DOMContentLoaded", () => {
  prepareCode(document);
  showTarget();
});
