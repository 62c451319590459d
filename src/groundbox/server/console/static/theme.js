// Sets the theme before anything is drawn. "auto" follows the system.
"use strict";
(() => {
  const chosen = localStorage.getItem("groundbox.theme") ?? "auto";
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = chosen === "auto" ? system : chosen;
})();
