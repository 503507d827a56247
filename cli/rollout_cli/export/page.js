"use strict";
(() => {
  const MOST = 2000;
  const box = document.querySelector("#search"), told = document.querySelector("#found");
  const marks = typeof Highlight === "function" && CSS.highlights ? CSS.highlights : null;
  const ring = (el) => [...document.querySelectorAll(el)];
  let hits = [], at = -1;

  const reveal = (el) => {
    for (let fold = el.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  };
  const go = (el) => {
    if (!el) return;
    reveal(el);
    el.scrollIntoView({ block: "start" });
    (el.querySelector(":scope > summary") || el).focus({ preventScroll: true });
  };
  const follow = () => {
    let id = "";
    try { id = decodeURIComponent(location.hash.slice(1)); } catch { return; }
    if (id) go(document.getElementById(id));
  };

  const search = () => {
    const words = box.value;
    hits = [], at = -1;
    if (marks) marks.clear();
    if (words) {
      const pattern = new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
      for (const pre of document.querySelectorAll("main pre")) {
        const text = pre.firstChild;
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
    at = (at + by + hits.length) % hits.length;
    const pre = hits[at].startContainer.parentElement;
    reveal(pre);
    if (marks) marks.set("here", new Highlight(hits[at]));
    const y = hits[at].getBoundingClientRect().top;
    window.scrollBy(0, y - window.innerHeight / 3);
    tell();
  };
  const walk = (selector, by) => {
    const all = ring(selector), top = document.querySelector(".bar").offsetHeight + 24;
    const focused = all.findIndex((el) => el.contains(document.activeElement));
    let next = focused + by;
    if (focused < 0) {
      next = all.findIndex((el) => el.getBoundingClientRect().top > top);
      if (by < 0) next = (next < 0 ? all.length : next) - 1;
    }
    go(all[next]);
  };
  const toggle = () => {
    const folds = ring("main details"), open = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = open;
  };

  let waiting = 0;
  box.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 150); });
  document.querySelector("#bar").addEventListener("submit", (event) => {
    event.preventDefault();
    if (at < 0) { clearTimeout(waiting); search(); }
    step(1);
  });
  document.querySelector("#back").addEventListener("click", () => step(-1));
  document.querySelector("#folds").addEventListener("click", toggle);
  const keys = {
    "/": () => box.focus(), n: () => step(1), N: () => step(-1), e: toggle,
    j: () => walk(".turn", 1), k: () => walk(".turn", -1), u: () => walk(".undone", 1), c: () => walk(".compaction", 1),
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target === box) { box.value = ""; search(); box.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === box || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
  window.addEventListener("hashchange", follow);
  follow();
})();
