// Runs before the page is drawn, so that it never flashes in the wrong colours.
(() => {
  let wanted = "auto";
  try {
    wanted = localStorage.getItem("headrace-theme") || "auto";
  } catch {
    // Storage may be forbidden: then the page follows the system.
  }
  document.documentElement.dataset.theme = wanted;
})();
