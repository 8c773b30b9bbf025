// The search, the buttons, and what the pages remember (theme.js). Without scripts everything else works.
"use strict";

const root = document.body.dataset.root;

// The API's page was here before: its places are known to the browser alone.
if (location.hash.startsWith("#/")) location.replace(root + "api/" + location.hash);

// --- The menu shows where the reader is.

const menu = document.getElementById("ui-menu");
const current = menu.querySelector("[aria-current]");
if (current) menu.scrollTop = current.offsetTop - menu.offsetTop - menu.clientHeight / 2;

// --- Colours: those of the system, light, dark.

const theme = document.getElementById("ui-theme");
const showTheme = () => { theme.textContent = { light: "Light", dark: "Dark" }[document.documentElement.dataset.theme] ?? "Auto"; };
theme.setAttribute("aria-description", "changes the colours");
theme.addEventListener("click", () => {
  const next = { light: "dark", dark: "" }[document.documentElement.dataset.theme] ?? "light";
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  remember("theme", next);
  showTheme();
});
showTheme();
theme.hidden = false;

// --- Tabs: a language that was chosen once is chosen everywhere.

function choose(language) {
  for (const button of document.querySelectorAll(".tabs > input")) if (button.value === language) button.checked = true;
}
if (recall("language")) choose(recall("language"));
document.addEventListener("change", ({ target }) => {
  if (!target.matches(".tabs > input")) return;
  const before = target.getBoundingClientRect().top;
  choose(target.value);
  scrollBy(0, target.getBoundingClientRect().top - before); // blocks above have changed their height
  remember("language", target.value);
});

// --- Copying: of a session only the commands.

for (const block of document.querySelectorAll(".code")) {
  const button = Object.assign(document.createElement("button"), { className: "copy", type: "button", textContent: "Copy" });
  button.addEventListener("click", async () => {
    const code = block.querySelector("code");
    const lines = code.textContent.split("\n");
    const commands = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
    await navigator.clipboard.writeText(code.dataset.language === "console" && commands.length ? commands.join("\n") + "\n" : code.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  if (navigator.clipboard) block.append(button); // a page without TLS has no clipboard
}

// --- Search.

const field = document.getElementById("ui-search");
const results = document.getElementById("ui-results");
const list = results.querySelector("ul");
const status = results.querySelector("p");
const noise = new Set("a an and are as at be by can do does for from how i if in is it my of on or the to what when where which with you your".split(" "));
const shown = 12;
let index; // a promise of it, once somebody searches

// stem takes off what a word of a question and one of a text often differ in.
const stem = (word) => word.length > 4 ? word.replace(/(?<=...)(ings?|ed|es|s|e)$/, "") : word.replace(/(?<=..)s$/, "");
const split = (text) => text.toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter(Boolean);
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

// pattern finds words that begin with a term.
const pattern = (term) => new RegExp("(?<![\\p{L}\\p{N}])" + escaped(term), "giu");

// rank tells how well a section answers a question, 0 for not at all: every term has to be there. Terms in the
// heading count most, then the phrase as it was typed, then the title of the page, then how often terms are in the text.
function rank(section, page, terms, phrase) {
  let sum = 0;
  for (const term of terms) {
    const inHeading = section.h.match(term)?.length ?? 0, inTitle = page.title.match(term)?.length ?? 0;
    const inText = section.x.match(term)?.length ?? 0;
    if (!inHeading && !inTitle && !inText) return 0;
    sum += (inHeading ? 12 : 0) + (inTitle ? 5 : 0) + 3 * Math.min(inText, 6) / Math.log2(8 + section.x.length / 200);
  }
  if (terms.length > 1 && (phrase.test(section.h) || phrase.test(section.x))) sum += 15;
  if (split(section.h).map(stem).join(" ") === phrase.words) sum += 20;
  return page.quiet ? sum / 2 : sum;
}

function find({ pages, sections }, question) {
  const words = split(question);
  const meant = words.filter((word) => !noise.has(word));
  const stems = (meant.length ? meant : words).map(stem);
  if (!stems.length) return [];
  const terms = stems.map(pattern);
  const phrase = new RegExp(words.map(escaped).join("[^\\p{L}\\p{N}]+"), "iu");
  phrase.words = stems.join(" ");
  return sections.map((section) => ({ section, page: pages[section.p], rank: rank(section, pages[section.p], terms, phrase) }))
    .filter((found) => found.rank > 0).sort((a, b) => b.rank - a.rank).map((found) => ({ ...found, terms }));
}

// excerpt is the part of a text around the first term in it, with the terms in bold.
function excerpt(text, terms) {
  const out = document.createElement("small");
  const first = Math.min(...terms.map((term) => { const at = text.search(term); return at < 0 ? Infinity : at; }));
  const from = first === Infinity ? 0 : Math.max(0, text.lastIndexOf(" ", Math.max(0, first - 50)) + 1);
  const part = (from ? "... " : "") + text.slice(from, from + 160);
  let end = 0;
  for (const match of part.matchAll(new RegExp(terms.map((term) => term.source).join("|"), "giu"))) {
    const bold = Object.assign(document.createElement("b"), { textContent: match[0] });
    out.append(part.slice(end, match.index), bold);
    end = match.index + match[0].length;
  }
  out.append(part.slice(end));
  return out;
}

function open(yes) {
  results.hidden = !yes;
  field.setAttribute("aria-expanded", String(yes));
}

async function search() {
  const question = field.value.trim();
  if (!question) return open(false);
  index ??= fetch(root + "search.json").then((answer) => {
    if (!answer.ok) throw new Error(answer.status);
    return answer.json();
  });
  try {
    const all = find(await index, question);
    if (question !== field.value.trim()) return;
    list.replaceChildren(...all.slice(0, shown).map(({ section, page, terms }) => {
      const link = Object.assign(document.createElement("a"), { href: (root + page.path || "./") + (section.a ? "#" + section.a : "") });
      link.append(section.h === page.title ? page.title : `${page.title}: ${section.h}`, excerpt(section.x, terms));
      const item = document.createElement("li");
      item.append(link);
      return item;
    }));
    status.textContent = all.length > shown ? `the best ${shown} of ${all.length} sections` : all.length === 1 ? "1 section" : `${all.length} sections`;
  } catch {
    index = undefined;
    status.textContent = "The search could not be loaded.";
  }
  open(true);
}

field.addEventListener("input", search);
field.addEventListener("click", search);
field.form.addEventListener("submit", (event) => {
  event.preventDefault();
  list.querySelector("a")?.click();
});
field.form.addEventListener("keydown", (event) => {
  const links = [...list.querySelectorAll("a")], at = links.indexOf(document.activeElement);
  if (event.key === "Escape") {
    open(false);
    field.focus();
  } else if (event.key === "ArrowDown" && links.length) {
    links[Math.min(at + 1, links.length - 1)].focus();
  } else if (event.key === "ArrowUp") {
    (links[at - 1] ?? field).focus();
  } else {
    return;
  }
  event.preventDefault();
});
list.addEventListener("click", () => open(false));
document.addEventListener("click", ({ target }) => { if (!field.form.contains(target)) open(false); });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
    event.preventDefault();
    field.focus();
  }
});
field.form.hidden = false;
