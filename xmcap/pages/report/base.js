// The value of a control: a select list, or a group of radio buttons.
function chosen(name) {
  const control = document.querySelector(`select[name="${name}"], input[name="${name}"]:checked`);
  return control ? control.value : null;
}

function onChoice(names, update) {
  const selector = names.map((name) => `[name="${name}"]`).join(", ");
  for (const control of document.querySelectorAll(selector)) control.addEventListener("change", update);
}

const element = (tag, className, text) => create(tag, text, className ? { className } : {});

// One tooltip for the whole page: it shows `data-tip` of the element under the pointer or in focus.
const tip = element("div", "tip");
tip.setAttribute("role", "tooltip");
tip.id = "tip";
tip.hidden = true;
document.body.append(tip);

let tipOf = null;

function showTip(target) {
  tipOf = target;
  const [head, ...lines] = target.dataset.tip.split("\n");
  tip.replaceChildren(element("b", "", head), ...lines.map((line) => element("span", "", line)));
  tip.hidden = false;
  const of = target.getBoundingClientRect();
  const size = tip.getBoundingClientRect();
  const left = of.left + of.width / 2 - size.width / 2;
  const above = of.top - size.height - 8;
  tip.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - size.width - 8))}px`;
  tip.style.top = `${above > 8 ? above : of.bottom + 8}px`;
}

function hideTip() {
  tip.hidden = true;
}

document.addEventListener("pointerover", (event) => {
  const target = event.target.closest?.("[data-tip]");
  if (target) showTip(target);
  else hideTip();
});
document.addEventListener("focusin", (event) => {
  const target = event.target.closest("[data-tip]");
  if (target && target.matches(":focus-visible")) showTip(target);
  else hideTip();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});
document.addEventListener("scroll", () => {
  if (tip.hidden) return;
  if (tipOf?.matches(":hover, :focus-visible")) showTip(tipOf);
  else hideTip();
}, { capture: true, passive: true });

// A link to an explanation opens the box that hides it.
function reveal() {
  byId(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
}
window.addEventListener("hashchange", reveal);
reveal();

// The table of contents marks the section that is in view.
const contents = new Map([...document.querySelectorAll(".contents a[href^='#']")].map((a) => [a.hash.slice(1), a]));
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    for (const [name, link] of contents) {
      if (name === entry.target.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }
}, { rootMargin: "-20% 0px -75% 0px" });
for (const name of contents.keys()) {
  const section = byId(name);
  if (section && section.tagName === "SECTION") seen.observe(section);
}
