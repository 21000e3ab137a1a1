// The theme's toggles in the sidebar are icons: say what they are to those who do not see them.
for (const toggle of document.querySelectorAll("summary:has(> .toctree-toggle)")) {
  const page = toggle.closest("li").querySelector("a");
  toggle.setAttribute("aria-label", `Pages below ${page ? page.textContent.trim() : "this one"}`);
}
