// The module of all pages: theme, palette, keys, live values. Every page works without this module.
const $ = (id) => document.getElementById(id);
const body = document.body, live = $("live"), offline = $("offline");
for (const e of document.querySelectorAll(".js[hidden]")) e.hidden = false;

// Theme: with the cookie, the server sends the page in the right theme.
const themes = ["auto", "light", "dark"];
document.querySelector("[data-theme-switch]")?.closest("form").addEventListener("submit", (e) => {
  e.preventDefault();
  const name = e.target.querySelector("[data-name]"), now = themes[(themes.indexOf(name.textContent) + 1) % 3];
  if (now === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = now;
  name.textContent = now;
  e.target.querySelector("button").value = themes[(themes.indexOf(now) + 1) % 3];
  document.cookie = `dragoman_theme=${now}; path=/console/; max-age=31536000; samesite=strict`;
});

// Copy and reload buttons.
document.addEventListener("click", async (e) => {
  const from = e.target.closest?.("[data-copy]");
  if (from) {
    try { await navigator.clipboard.writeText($(from.dataset.copy).textContent); toast("Copied."); } catch { getSelection().selectAllChildren($(from.dataset.copy)); }
  }
  if (e.target.closest?.("[data-reload-page]")) location.reload();
});
// A configuration pasted into the empty field is submitted at once.
document.addEventListener("paste", (e) => {
  const t = e.target.closest?.("[data-paste]");
  if (t && !t.value.trim()) setTimeout(() => { if (t.value.trim()) t.form.requestSubmit(); });
});
// Forms: updates never replace typed text, and Ctrl+Enter submits the form.
document.addEventListener("input", (e) => { const f = e.target.closest?.("[data-form]"); if (f) f.dataset.typed = ""; });
document.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) e.target.closest?.("[data-form]")?.querySelector(".main").click();
});
let toastTimer;
function toast(text) {
  let t = $("toast");
  if (text) {
    t ??= body.appendChild(Object.assign(document.createElement("div"), { id: "toast", className: "toast" }));
    t.setAttribute("role", "status");
    t.textContent = text;
  }
  if (!t) return;
  const go = () => { toastTimer = setTimeout(() => t.remove(), 6000); };
  clearTimeout(toastTimer);
  t.onpointerenter = t.onfocus = () => clearTimeout(toastTimer);
  t.onpointerleave = t.onblur = go;
  go();
}
toast();

// A row of the diagram highlights its line while the row has the pointer or the focus.
function light(row) {
  const loom = document.querySelector(".loom"), on = row?.dataset.line;
  if (!loom) return;
  loom.classList.toggle("one", !!on);
  for (const p of loom.querySelectorAll("[data-of]")) p.classList.toggle("lit", p.dataset.of === on);
}
for (const [kind, on] of [["pointerover", true], ["focusin", true], ["pointerout", false], ["focusout", false]])
  document.addEventListener(kind, (e) => {
    const row = e.target.closest?.("[data-line]");
    if (row) light(on ? row : null);
  });

// Live values: the server sends new text for elements, by id. When a section of the page changes,
// the module loads the page again and replaces the section. It inserts no other HTML.
let source, last = "", paused = false, waits = 1000, retry, lostAt = 0, ticking;
const waiting = new Map();
const clock = () => new Date().toTimeString().slice(0, 8);
function say(kind, text, title) {
  live.className = "st live " + kind;
  live.textContent = text;
  live.title = title;
}
function apply(list) {
  for (const p of list) {
    const e = $(p.id);
    if (!e) continue;
    if (paused && p.count === undefined) { waiting.set(p.id, p); continue; }
    if (p.hash !== undefined) { if (e.dataset.hash !== p.hash) renew(p.id, p.hash); continue; }
    if (p.count !== undefined) {
      const n = p.count - e.dataset.count;
      e.hidden = n <= 0;
      if (n > 0) e.textContent = `Show ${n} new`;
      if (paused) asOf(n);
      continue;
    }
    if (p.value !== undefined) { e.value = p.value; continue; }
    if (p.d !== undefined) { e.setAttribute("d", p.d); e.setAttribute("stroke-width", p.width); continue; }
    if (e.textContent !== p.text) e.textContent = p.text;
    if (p.class !== undefined && e.getAttribute("class") !== p.class) e.setAttribute("class", p.class);
  }
}
const stale = new Map();
let renewing, renewed = 0;
function renew(id, hash) {
  stale.set(id, hash);
  if ("soon" in $(id).dataset) { clearTimeout(renewing); renewing = setTimeout(load, 200); }
  renewing ??= setTimeout(load, Math.max(200, renewed + 5000 - Date.now()));
}
async function load() {
  renewing = undefined;
  if (paused) return;
  renewed = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) { if (answer.status === 404) location.reload(); return; }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const id of [...stale.keys()]) {
      const old = $(id), now = page.getElementById(id);
      if (!old || !now || "reload" in old.dataset) { location.reload(); return; }
      // A section is not replaced while the user points at it, or types or selects text in it.
      if (old.querySelector("[data-typed]") || old.matches(":hover") && !("soon" in old.dataset) || old.contains(document.activeElement) || old.contains(getSelection().anchorNode) && !getSelection().isCollapsed) { renewing ??= setTimeout(load, 5000); continue; }
      const open = [...old.querySelectorAll("details")].map((d) => d.open);
      old.replaceWith(document.adoptNode(now));
      for (const e of now.querySelectorAll(".js[hidden]")) e.hidden = false;
      now.querySelectorAll("details").forEach((d, i) => { d.open = open[i] ?? d.open; });
      stale.delete(id);
    }
  } catch { /* the event stream reports a lost connection */ }
}
function connect() {
  clearTimeout(retry);
  if (source || document.hidden || !body.dataset.page) return;
  source = new EventSource("/console/events?" + new URLSearchParams({ page: body.dataset.page, last }));
  source.onopen = () => {
    waits = 1000; lostAt = 0;
    clearInterval(ticking);
    offline.hidden = true;
    body.classList.remove("lost");
    if (paused) return;
    say(live.dataset.waiting ? "busy" : "ok", live.dataset.waiting || "live", "Live updates are on. Press P to pause.");
  };
  source.addEventListener("patch", (e) => {
    last = e.lastEventId;
    apply(JSON.parse(e.data));
    if (!paused) body.dataset.at = clock();
  });
  source.onerror = source.onend = lost;
  source.addEventListener("end", lost);
}
function lost() {
  close();
  if (document.hidden) return;
  lostAt ||= Date.now();
  const next = Date.now() + waits;
  const tell = () => {
    const gone = Math.round((Date.now() - lostAt) / 1000), left = Math.max(0, Math.round((next - Date.now()) / 1000));
    offline.textContent = `The connection to Dragoman was lost ${gone} s ago. Data is from ${body.dataset.at}. Next retry in ${left} s.`;
    body.classList.toggle("lost", gone >= 30);
  };
  clearInterval(ticking);
  if (waits > 1000) { tell(); offline.hidden = false; ticking = setInterval(tell, 1000); if (!paused) say("warn", "offline", "The connection to Dragoman is lost."); }
  retry = setTimeout(async () => {
    try { if ([401, 403, 404].includes((await fetch(location.href, { method: "HEAD" })).status)) { location.reload(); return; } } catch { /* the connection is still lost */ }
    connect();
  }, waits);
  waits = Math.min(waits * 2, 30000);
}
function close() { source?.close(); source = undefined; }
document.addEventListener("visibilitychange", () => { if (document.hidden) { close(); clearTimeout(retry); } else connect(); });
addEventListener("pagehide", close);
addEventListener("pageshow", connect);
// While the page is paused, the event stream stays open. The page shows the number of new rows, and
// keeps the newest value of each element until the user resumes.
function asOf(n) { say("idle", `as of ${body.dataset.at}${n > 0 ? ` · ${n} new` : ""}`, "Live updates are paused. Press P to resume."); }
function pause() {
  paused = !paused;
  if (paused) { asOf(document.querySelector("[data-count]:not([hidden])")?.textContent.match(/\d+/)?.[0]); return; }
  apply([...waiting.values()]);
  waiting.clear();
  for (const [id, hash] of stale) renew(id, hash);
  body.dataset.at = clock();
  if (source?.readyState === EventSource.OPEN) source.onopen(); else connect();
}

// The palette.
const palette = $("palette"), input = $("q"), list = $("found");
let items, found = [], at = 0;
palette.addEventListener("beforetoggle", () => { input.value = ""; }); // "toggle" fires later, perhaps after the user has typed
palette.addEventListener("toggle", async (e) => {
  if (e.newState !== "open") return;
  input.focus();
  draw();
  try { items = await (await fetch("/console/palette.json?page=" + location.pathname)).json(); } catch { items ??= []; }
  draw();
});
function score(text, words) {
  let n = 0;
  for (const w of words) {
    const i = text.indexOf(w);
    if (i < 0) return -1;
    n += i ? (/[^a-z0-9]/.test(text[i - 1]) ? 1 : 3) : 0;
  }
  return n + text.length / 1000;
}
function draw() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  found = (items ?? []).map((x) => [score((x.t + " " + x.k).toLowerCase(), words), x]).filter(([n]) => n >= 0)
    .sort((a, b) => a[0] - b[0]).slice(0, 12).map(([, x]) => x);
  at = Math.min(at, Math.max(0, found.length - 1));
  list.replaceChildren(...found.map((x, i) => {
    const row = Object.assign(document.createElement("li"), { id: "f" + i });
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", i === at);
    const name = document.createElement("bdi"), kind = document.createElement("span");
    name.textContent = x.t;
    kind.textContent = x.k;
    kind.className = "faint";
    row.append(name, kind);
    row.onclick = () => { location.href = x.p; };
    return row;
  }));
  if (items && !found.length) list.replaceChildren(Object.assign(document.createElement("li"), { className: "faint", textContent: "Nothing found." }));
  input.setAttribute("aria-activedescendant", found.length ? "f" + at : "");
}
input.addEventListener("input", () => { at = 0; draw(); });
input.addEventListener("keydown", (e) => {
  if (e.key === "ArrowDown" || e.key === "ArrowUp") { at = (at + (e.key === "ArrowDown" ? 1 : -1) + found.length) % Math.max(1, found.length); draw(); e.preventDefault(); }
  if (e.key === "Enter" && found[at]) { e.preventDefault(); location.href = found[at].p; }
});

// Keyboard shortcuts. Those of one key do nothing in text fields.
const store = { get: () => { try { return localStorage.getItem("dragoman-keys") === "off"; } catch { return false; } }, set: (v) => { try { localStorage.setItem("dragoman-keys", v ? "off" : "on"); } catch { /* private mode */ } } };
const box = $("keys-off");
box.checked = store.get();
box.addEventListener("change", () => store.set(box.checked));
const goes = [...document.querySelectorAll(".nav [data-key]")];
$("goes").append(goes.map((a) => `${a.dataset.key} ${a.firstChild.data}`).join(" · "));
let after = 0;
addEventListener("keydown", (e) => {
  if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") { e.preventDefault(); palette.togglePopover(); return; }
  if (e.ctrlKey || e.metaKey || e.altKey || box.checked || e.target.closest?.("input, textarea, select, [contenteditable]")) return;
  const key = e.key.toLowerCase();
  if (Date.now() - after < 1500) {
    after = 0;
    const link = goes.find((a) => a.dataset.key.toLowerCase() === key);
    if (link) { location.href = link.href; return; }
  }
  if (key === "g") after = Date.now();
  else if (key === "/") { e.preventDefault(); palette.showPopover(); }
  else if (key === "?") $("keys").togglePopover();
  else if (key === "p") pause();
  else if (key === "j" || key === "k") {
    const rows = [...document.querySelectorAll("main tbody .lead a, main .peer .who a, main .needs h3 a")].filter((a) => a.offsetParent);
    const i = rows.indexOf(document.activeElement);
    rows[Math.max(0, Math.min(rows.length - 1, i < 0 ? 0 : i + (key === "j" ? 1 : -1)))]?.focus();
  }
});
connect();
