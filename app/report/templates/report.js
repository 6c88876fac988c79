"use strict";
(() => {
  const all = (query, from = document) => Array.from(from.querySelectorAll(query));
  const shown = (element) => element.offsetParent !== null;

  // keys: j and k step through the lost questions, / goes to the filter
  const typing = (element) => element.matches("input:not([type=radio]):not([type=checkbox]), select, textarea");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (event.key === "/") {
      const field = document.querySelector("#filter-text");
      if (field) { event.preventDefault(); field.focus(); field.select(); }
      return;
    }
    if (event.key !== "j" && event.key !== "k") return;
    const cards = all("article.card").filter(shown);
    if (!cards.length) return;
    const within = document.activeElement && document.activeElement.closest("article.card");
    const at = cards.indexOf(within);
    const next = at < 0 ? (event.key === "j" ? 0 : cards.length - 1) : at + (event.key === "j" ? 1 : -1);
    const card = cards[Math.max(0, Math.min(cards.length - 1, next))];
    card.focus({ preventScroll: true });
    card.scrollIntoView({ block: "start" });
    event.preventDefault();
  });

  // the file filters itself: every question carries the marks of its slices, cause and owner
  const form = document.querySelector("form[data-file]");
  if (form) {
    form.hidden = false;
    const said = form.querySelector("output");
    const filter = () => {
      const marks = all("select", form).map((each) => each.value).filter(Boolean);
      const text = form.querySelector("#filter-text").value.trim().toLowerCase();
      let left = 0;
      for (const each of all("[data-f]")) {
        const own = each.dataset.f.split(" ");
        const takes = marks.every((mark) => own.includes(mark)) && each.textContent.toLowerCase().includes(text);
        each.hidden = !takes;
        if (takes && each.matches("article")) left += 1;
      }
      said.textContent = marks.length || text ? `${left} lost shown` : "";
    };
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => { event.preventDefault(); filter(); });
    form.addEventListener("reset", () => setTimeout(filter));
  }

  // what an address names is opened where it is folded away
  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const fold = target && target.closest("details");
    if (fold) { fold.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", unfold);
  unfold();

  // progress of a run, told by the service until it is done
  const live = document.querySelector("[data-events]");
  if (live && window.EventSource) {
    const bar = live.querySelector("progress");
    const told = live.querySelector("[data-told]");
    const events = new EventSource(live.dataset.events);
    events.addEventListener("progress", (event) => {
      const { state, done, planned } = JSON.parse(event.data);
      bar.max = Math.max(planned, 1);
      bar.value = done;
      told.textContent = planned ? `${done} of ${planned} observations` : `No observation yet: the run is ${state}`;
    });
    events.addEventListener("done", () => { events.close(); location.reload(); });
  }
})();
