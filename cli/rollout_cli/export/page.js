"use strict";
(() => {
  const MOST = 2000, ROOM = 24;
  const find = (selector) => document.querySelector(selector);
  const bar = find(".bar"), box = find("#search"), told = find("#found"), hints = find(".keys");
  const marks = typeof Highlight === "function" && CSS.highlights ? CSS.highlights : null;
  let hits = [], at = -1;

  const reveal = (el) => {
    for (let fold = el.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  };
  const go = (el) => {
    reveal(el);
    el.scrollIntoView({ block: "start" });
    (el.querySelector(":scope > summary") || el).focus({ preventScroll: true });
  };
  const follow = () => {
    let id = "";
    try { id = decodeURIComponent(location.hash.slice(1)); } catch { return; }
    const el = id && document.getElementById(id);
    if (el) go(el);
  };

  const search = () => {
    const words = box.value;
    hits = [], at = -1;
    if (marks) marks.clear();
    if (words) {
      const pattern = new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
      for (const shown of document.querySelectorAll("main pre, main .note")) {
        const text = shown.firstChild;
        if (!text || hits.length >= MOST) continue;
        for (const found of text.data.matchAll(pattern)) {
          const range = new Range();
          range.setStart(text, found.index);
          range.setEnd(text, found.index + found[0].length);
          hits.push(range);
        }
      }
      if (marks && hits.length) marks.set("found", new Highlight(...hits));
    }
    tell();
  };
  const tell = () => {
    const most = hits.length >= MOST ? "+" : "";
    told.textContent = box.value ? (at < 0 ? `${hits.length}${most} found` : `${at + 1} of ${hits.length}${most}`) : "";
  };
  const step = (by) => {
    if (!hits.length) return;
    at = at < 0 && by < 0 ? hits.length - 1 : (at + by + hits.length) % hits.length;
    const hit = hits[at];
    reveal(hit.startContainer.parentElement);
    if (marks) marks.set("here", new Highlight(hit));
    const center = (frames) => { // what is around it gets its real height only as it comes near
      if (hit !== hits[at]) return;
      window.scrollBy(0, hit.getBoundingClientRect().top - window.innerHeight / 3);
      if (frames) requestAnimationFrame(() => center(frames - 1));
    };
    center(4);
    tell();
  };

  const height = () => (getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0);
  const isSeen = (el) => {
    const { top, bottom } = el.getBoundingClientRect();
    return bottom > 0 && top < window.innerHeight;
  };
  const indexOfHere = (all) => { // where the focus is, or what the address names; if it is on the screen
    const here = document.activeElement === document.body ? find(":target") : document.activeElement;
    return here && isSeen(here) ? all.findIndex((el) => el.contains(here)) : -1;
  };
  const firstBelow = (all, top) => {
    const found = all.findIndex((el) => el.getBoundingClientRect().top > top);
    return found < 0 ? all.length : found;
  };
  const walk = (selector, by, words) => {
    const all = [...document.querySelectorAll(selector)], here = indexOfHere(all);
    const next = here >= 0 ? here + by : firstBelow(all, height() + ROOM) - (by < 0 ? 1 : 0);
    if (all[next]) go(all[next]);
    else told.textContent = `no more ${words}`;
  };
  const copy = () => {
    const all = [...document.querySelectorAll(".turn")].filter((el) => el.checkVisibility());
    const here = indexOfHere(all), turn = all[here >= 0 ? here : Math.max(0, firstBelow(all, height() + ROOM) - 1)];
    if (!turn) return;
    history.replaceState(null, "", `#${turn.id}`);
    const say = (words) => () => { told.textContent = words; };
    const copied = navigator.clipboard ? navigator.clipboard.writeText(location.href) : Promise.reject();
    copied.then(say("link copied"), say("link is in the address bar"));
  };
  const toggle = () => {
    const folds = [...document.querySelectorAll("main details")], open = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = open;
  };
  const help = () => {
    hints.open = !hints.open;
    if (hints.open) go(hints);
  };

  let waiting = 0;
  box.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 150); });
  find("#bar").addEventListener("submit", (event) => {
    event.preventDefault();
    if (at < 0) { clearTimeout(waiting); search(); }
    step(1);
  });
  find("#back").addEventListener("click", () => step(-1));
  find("#folds").addEventListener("click", toggle);
  const keys = {
    "/": () => { box.focus(); box.select(); }, n: () => step(1), N: () => step(-1), e: toggle, y: copy, "?": help,
    j: () => walk(".turn", 1, "turns"), k: () => walk(".turn", -1, "turns"),
    u: () => walk(".undone, .emptied", 1, "turns taken back"), c: () => walk(".compaction", 1, "compactions"),
    w: () => document.body.classList.toggle("whole"),
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target === box) { event.preventDefault(); box.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === box || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) follow(); // no hashchange comes, but folds may have been closed since
  });
  window.addEventListener("hashchange", follow);
  bar.hidden = hints.hidden = false;
  const measure = () => document.documentElement.style.setProperty("--bar", `${height()}px`);
  measure();
  new ResizeObserver(measure).observe(bar);
  follow();
})();
