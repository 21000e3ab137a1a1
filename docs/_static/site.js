// The theme's toggles in the sidebar are icons: say what they are to those who do not see them.
for (const toggle of document.querySelectorAll("summary:has(> .toctree-toggle)")) {
  const page = toggle.closest("li").querySelector("a");
  toggle.setAttribute("aria-label", `Pages below ${page ? page.textContent.trim() : "this one"}`);
}
// The theme writes "Search Ctrl+K" on its button, and calls it "Search": one name for those who see it and those who do not.
for (const button of document.querySelectorAll(".search-button-field")) {
  const text = button.innerText.replace(/\s+/g, "");
  if (text) button.setAttribute("aria-label", text.replace(/^Search/, "Search "));
}
// A table or formula that scrolls can be reached, and scrolled, with the keyboard.
for (const box of document.querySelectorAll("div.output_html, div.math")) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
}
