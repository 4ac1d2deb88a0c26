// Behaviour beyond links and forms. Text from the server enters a page only as parsed HTML that the server has escaped.
"use strict";

const root = document.documentElement;
root.classList.add("scripted");

// Dark or light: the reader's choice, else the system's.
const kept = (() => { try { return localStorage.getItem("threadkeep-theme"); } catch { return null; } })();
if (kept) root.dataset.theme = kept;

function switchTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("threadkeep-theme", root.dataset.theme); } catch { /* private windows have no storage */ }
  document.dispatchEvent(new CustomEvent("theme"));
}
document.getElementById("theme").addEventListener("click", switchTheme);

// Show moments in the reader's own time zone.
function localTimes(within) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) { time.title = time.dateTime; time.textContent = at.toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" }); }
  }
}
localTimes(document);

for (const form of document.querySelectorAll("form[data-submit]")) {
  form.addEventListener("change", () => form.requestSubmit());
}
for (const form of document.querySelectorAll("form[data-confirm]")) {
  form.addEventListener("submit", (event) => { if (!confirm(form.dataset.confirm)) event.preventDefault(); });
}

// A line of the timeline loads its text when it is opened.
async function loadBody(details) {
  const body = details.querySelector(".body");
  if (!details.open || !details.dataset.body || body.dataset.filled) return;
  body.dataset.filled = "yes";
  const page = await fetchPage(`${details.dataset.body}?part=body`);
  if (page === null) { delete body.dataset.filled; return; }
  body.replaceChildren(...page.body.childNodes);
  localTimes(body);
}
document.addEventListener("toggle", (event) => { if (event.target.matches("details[data-body]")) loadBody(event.target); }, true);

async function fetchPage(url) {
  try {
    const answer = await fetch(url, { headers: { accept: "text/html" } });
    return answer.ok && !answer.redirected ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
  } catch { return null; }
}

// Live pages: when the server reports new records, the page loads itself again and updates what changed.
const KINDS = ["meta", "turn", "context", "item", "reply", "checkpoint", "undo", "rollback", "mail", "note", "written"];
const indicator = document.getElementById("live");
let waiting = null;

let busy = false;
let again = false;

// One refresh at a time, so that an older response never overwrites a newer one.
async function refresh() {
  waiting = null;
  if (busy) { again = true; return; }
  busy = true;
  await updatePage();
  busy = false;
  if (again) { again = false; refresh(); }
}

async function updatePage() {
  const lines = document.querySelector("[data-live=lines]");
  const page = await fetchPage(lines ? linkSince(lines) : location.href);
  if (page === null) return;
  for (const old of document.querySelectorAll("[data-live]")) {
    const next = page.getElementById(old.id);
    if (next === null) continue;
    if (old === lines) merge(old, next); else old.replaceWith(document.importNode(next, true));
  }
  localTimes(document);
  document.dispatchEvent(new CustomEvent("written"));
}

// The address of all lines from the first one shown on; the server sends the newest if they are too many.
function linkSince(lines) {
  const url = new URL(location.href);
  for (const name of ["before", "after", "at"]) url.searchParams.delete(name);
  if (lines.firstElementChild) url.searchParams.set("since", lines.firstElementChild.id.slice(1));
  return url;
}

// Keep unchanged lines, which the reader may have opened; replace changed ones, add new ones, remove missing ones.
function merge(old, next) {
  const atEnd = innerHeight + scrollY >= document.body.scrollHeight - 80;
  const shown = new Map([...old.children].map((line) => [line.id, line]));
  const lines = [...next.children].map((line) => {
    const before = shown.get(line.id);
    if (before?.dataset.state === line.dataset.state) return before;
    const added = document.importNode(line, true);
    if (before === undefined) added.classList.add("fresh");
    else if (before.querySelector("details[open]")) { const details = added.querySelector("details"); details.open = true; loadBody(details); }
    return added;
  });
  const kept = new Set(lines);
  for (const line of shown.values()) if (!kept.has(line)) line.remove();
  lines.forEach((line, at) => { if (old.children[at] !== line) old.insertBefore(line, old.children[at] ?? null); });
  if (atEnd) scrollTo({ top: document.body.scrollHeight });
}

function follow(url) {
  let events = null;
  const close = () => { events?.close(); events = null; };
  const open = () => {
    if (events) return;
    events = new EventSource(url);
    events.addEventListener("open", () => { indicator.hidden = false; indicator.classList.remove("off"); });
    events.addEventListener("error", () => indicator.classList.add("off"));
    for (const kind of KINDS) events.addEventListener(kind, () => { waiting ??= setTimeout(refresh, 250); });
  };
  // Browsers allow few connections to one host, so a hidden page closes its own.
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else { open(); refresh(); } });
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => { if (event.persisted) { open(); refresh(); } });
  if (!document.hidden) open();
}
if (indicator && document.querySelector("[data-live]")) {
  const { thread, upto } = document.body.dataset;
  follow(thread ? `${thread}/events?after=${upto}` : "/ui/events");
}

// Keyboard.
const dialog = document.getElementById("keys");
document.getElementById("keys-open")?.addEventListener("click", () => dialog.showModal());
let prefix = "";

function lines() { return [...document.querySelectorAll("[data-lines] > li, table[data-lines] tbody > tr")]; }

function step(by) {
  const all = lines();
  if (!all.length) return;
  const before = all.findIndex((line) => line.classList.contains("current"));
  all[before]?.classList.remove("current");
  const current = Math.max(0, Math.min(all.length - 1, before + by));
  all[current].classList.add("current");
  all[current].querySelector("summary, a, button")?.focus({ preventScroll: true });
  all[current].scrollIntoView({ block: "nearest" });
}

const KEYS = {
  "/": () => (document.getElementById("within") ?? document.getElementById("q"))?.focus(),
  "?": () => dialog.showModal(),
  j: () => step(1),
  k: () => step(-1),
  n: () => document.querySelector("a[rel=next]")?.click(),
  p: () => document.querySelector("a[rel=prev]")?.click(),
  d: switchTheme,
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  if (event.target.closest("input, textarea, select")) { if (event.key === "Escape") event.target.blur(); return; }
  if (prefix) {
    document.querySelector(`[data-key="${CSS.escape(prefix + event.key)}"]`)?.click();
    prefix = "";
    event.preventDefault();
  } else if (event.key === "g") {
    prefix = "g";
  } else if (KEYS[event.key]) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

// A link to a folded line opens it.
const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
target?.querySelector?.("details")?.setAttribute("open", "");
