// The colour theme: automatic, light or dark. Loaded before the page is drawn, so nothing flashes.
(() => {
  const KEY = "warpsmith.theme";
  const ORDER = ["auto", "light", "dark"];
  const NAMES = { auto: "automatic", light: "light", dark: "dark" };
  const root = document.documentElement;

  function stored() {
    try {
      const value = localStorage.getItem(KEY);
      return ORDER.includes(value) ? value : "auto";
    } catch {
      return "auto";
    }
  }

  function apply(theme) {
    if (theme === "auto") {
      delete root.dataset.theme;
    } else {
      root.dataset.theme = theme;
    }
  }

  function show(button, theme) {
    const icon = button.querySelector("use");
    icon.setAttribute("href", `${button.dataset.icons}#theme-${theme}`);
    button.setAttribute("aria-label", `Theme: ${NAMES[theme]}`);
    button.title = `Theme: ${NAMES[theme]}`;
  }

  let theme = stored();
  apply(theme);

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-button]");
    if (!button) {
      return;
    }
    button.hidden = false;
    show(button, theme);
    button.addEventListener("click", () => {
      theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
      apply(theme);
      show(button, theme);
      try {
        localStorage.setItem(KEY, theme);
      } catch {
        // A browser that keeps nothing still shows the theme until the page is left.
      }
    });
  });
})();
