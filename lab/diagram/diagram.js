// Steps through a sequence diagram: call it once for each figure.steps of the page. At step n it shows steps 1 to n and
// the sentence of n; at 0, the whole picture. With keys, the arrow keys step the focused figure.
export function steps(figure, { keys = true } = {}) {
  const of = Number(figure.dataset.steps);
  const parts = [...figure.querySelectorAll("[data-step]")];
  const say = figure.querySelector(".steps-say");
  const start = say.innerHTML;
  const at = figure.querySelector(".steps-at");
  const scroll = figure.querySelector(".steps-scroll");
  const back = figure.querySelector(".steps-back");
  const next = figure.querySelector(".steps-next");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const self = {
    at: 0,
    step(n) {
      self.at = Math.min(Math.max(n, 0), of);
      figure.dataset.at = self.at;
      figure.classList.toggle("stepping", self.at > 0);
      for (const part of parts) {
        const its = Number(part.dataset.step);
        part.classList.toggle("ahead", self.at > 0 ? its > self.at : false);
        part.classList.toggle("now", its === self.at);
      }
      const item = figure.querySelector(".steps-list > li.now");
      say.innerHTML = item ? item.innerHTML : start;
      say.classList.toggle("harm", item ? item.classList.contains("harm") : false);
      at.textContent = self.at + " / " + of;
      back.disabled = self.at === 0;
      next.disabled = self.at === of;
      const now = figure.querySelector("svg g.now text, svg g.now circle");
      if (now) {
        const row = now.getBoundingClientRect(), all = scroll.getBoundingClientRect();
        const heads = figure.querySelector("svg.heads").getBoundingClientRect().height; // they cover the first rows
        const box = { top: all.top + heads, bottom: all.bottom, height: all.height - heads };
        const move = { behavior: calm.matches ? "auto" : "smooth" };
        if (Math.max(row.bottom - box.bottom, box.top - row.top) > -30) {
          scroll.scrollTo({ top: scroll.scrollTop + row.top - box.top - box.height / 2, ...move });
        }
      }
    },
    next() { self.step(self.at + 1); },
    back() { self.step(self.at - 1); },
  };
  back.addEventListener("click", () => self.back());
  next.addEventListener("click", () => self.next());
  if (keys) {
    figure.addEventListener("keydown", event => {
      const moves = {
        ArrowRight: self.next, ArrowLeft: self.back,
        Home: () => self.step(0), End: () => self.step(of),
      };
      const move = event.altKey || event.ctrlKey || event.metaKey ? null : moves[event.key];
      if (move) {
        event.preventDefault();
        move();
      }
    });
  }
  figure.classList.add("live");
  figure.querySelector(".steps-bar").hidden = false;
  say.hidden = false;
  self.step(0);
  return self;
}
