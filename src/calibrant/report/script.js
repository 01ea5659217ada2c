"use strict";
// Hover, tap and arrow keys show the words of a mark (data-tip) in one shared box. Words are only
// ever set as text, so a label name cannot become markup.
(() => {
  const tip = document.getElementById("tip");
  let current = null;

  const hide = () => {
    if (current) current.classList.remove("on");
    current = null;
    tip.hidden = true;
  };

  // Beside the place, on the side with more room, always inside the window.
  const place = (x, y) => {
    const { width, height } = tip.getBoundingClientRect();
    const right = x + 16 + width < innerWidth;
    const left = right ? x + 16 : Math.max(8, Math.min(x - width - 16, innerWidth - width - 8));
    tip.style.left = `${left}px`;
    tip.style.top = `${Math.max(8, Math.min(y - height - 12, innerHeight - height - 8))}px`;
  };

  const show = (mark, x, y) => {
    if (mark !== current) {
      hide();
      current = mark;
      mark.classList.add("on");
      tip.replaceChildren(...mark.dataset.tip.split("\n").map((words) => {
        const line = document.createElement("div");
        line.textContent = words;
        return line;
      }));
      tip.hidden = false;
    }
    place(x, y);
  };

  const showCentre = (mark) => {
    const box = mark.getBoundingClientRect();
    show(mark, box.left + box.width / 2, box.top + box.height / 3);
  };

  const point = (event) => {
    const mark = event.target.closest?.("[data-tip]");
    if (mark) show(mark, event.clientX, event.clientY);
    else hide();
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.documentElement.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse") hide();
  });

  const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };
  for (const chart of document.querySelectorAll("svg[tabindex]")) {
    const marks = [...chart.querySelectorAll("[data-tip]")];
    chart.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hide();
      if (!(event.key in steps) && event.key !== "Home" && event.key !== "End") return;
      if (!marks.length) return;
      event.preventDefault();
      const last = marks.length - 1;
      const at = marks.indexOf(current);
      const start = steps[event.key] > 0 ? -1 : last + 1;
      const next = { Home: 0, End: last }[event.key] ?? (at < 0 ? start : at) + steps[event.key];
      showCentre(marks[Math.max(0, Math.min(next, last))]);
    });
    chart.addEventListener("blur", hide);
  }
})();
