// Keeps a page fresh: reads it again every few seconds and replaces its parts that are marked with
// data-live. Without this script every page works, and is as fresh as its last load.
"use strict";

(() => {
  const main = document.querySelector("main[data-refresh]");
  if (!main) return;
  const every = Number(main.dataset.refresh) * 1000;
  let over = false; // the page shows what does not change any more
  const fresh = document.getElementById("fresh");
  let stale = 0; // readings that failed in a row

  const say = text => {
    if (fresh && fresh.textContent !== text) fresh.textContent = text;
  };

  // A part stays as it is while somebody uses it, so that no click or selection is lost.
  const busy = part => {
    const selection = document.getSelection();
    return part.contains(document.activeElement) || (selection && !selection.isCollapsed && part.contains(selection.anchorNode));
  };

  // Returns whether all parts are fresh.
  const replace = read => {
    let all = true;
    for (const part of main.querySelectorAll("[data-live]")) {
      const next = read.getElementById(part.id);
      if (!next || part.innerHTML === next.innerHTML) continue;
      if (busy(part)) all = false;
      else part.replaceWith(document.adoptNode(next));
    }
    return all;
  };

  const refresh = async () => {
    if (document.hidden) return;
    const answer = await fetch(location.href, {headers: {"X-Fanfare-Refresh": "1"}, cache: "no-store"});
    if (!answer.ok) { // the session has ended, or Redis is away: the page itself says so
      location.reload();
      return;
    }
    const read = new DOMParser().parseFromString(await answer.text(), "text/html");
    stale = 0;
    over = replace(read) && !read.querySelector("main[data-refresh]");
    say(over ? "" : "The figures refresh themselves.");
  };

  const loop = async () => {
    try {
      await refresh();
    } catch {
      if (++stale > 1) say("The server does not answer: the figures are old.");
    }
    if (!over) setTimeout(loop, every);
  };

  say("The figures refresh themselves.");
  setTimeout(loop, every);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !over) refresh().catch(() => {});
  });
})();
