(() => {
  "use strict";
  const root = document.documentElement;
  const tip = document.getElementById("tip");
  const live = document.getElementById("live");

  const element = (name, text, classes) => {
    const out = document.createElement(name);
    if (text) out.textContent = text;
    if (classes) out.className = classes;
    return out;
  };

  // One row for each mark of a column, with the rival's colour.
  const fill = (column) => {
    tip.replaceChildren(element("b", column.dataset.h));
    for (const mark of column.querySelectorAll("[data-n]")) {
      const row = element("div");
      row.append(element("i", "", mark.getAttribute("class")), element("span", mark.dataset.n));
      row.append(element("em", mark.dataset.v));
      tip.append(row);
    }
  };

  // Where a column is on the screen; a curve's column is as high as its picture.
  const spot = (svg, column) => {
    const box = svg.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    const x = box.left + Number(column.dataset.x) * scale;
    const y = column.dataset.y === undefined ? null : box.top + Number(column.dataset.y) * scale;
    return { x, y, box };
  };

  const place = (x, y) => {
    const gap = 14;
    const { offsetWidth: width, offsetHeight: height } = tip;
    const left = x + gap + width > innerWidth - 6 ? x - gap - width : x + gap;
    const top = y + gap + height > innerHeight - 6 ? y - gap - height : y + gap;
    tip.style.left = Math.max(6, Math.min(left, innerWidth - width - 6)) + "px";
    tip.style.top = Math.max(6, top) + "px";
  };

  let shown = null;
  const hide = () => {
    if (shown) shown.classList.remove("on");
    shown = null;
    tip.hidden = true;
  };
  const show = (svg, column, pointer) => {
    if (column !== shown) {
      hide();
      shown = column;
      column.classList.add("on");
      fill(column);
    }
    tip.hidden = false;
    const { x, y, box } = spot(svg, column);
    place(pointer ? pointer.clientX : x, pointer ? pointer.clientY : (y === null ? box.top + 40 : y));
  };

  const near = (svg, columns, x, y) => {
    let best = null, least = Infinity;
    for (const column of columns) {
      const at = spot(svg, column);
      const away = at.y === null ? Math.abs(at.x - x) : Math.hypot((at.x - x) / 4, at.y - y);
      const inside = column.querySelector(".ring");
      if (inside) {
        const box = inside.getBoundingClientRect();
        if (x < box.left || x > box.right || y < box.top || y > box.bottom) continue;
      }
      if (away < least) [best, least] = [column, away];
    }
    return best;
  };

  // The next column in the direction of a key: along it, and as little as possible beside it.
  const next = (svg, columns, from, [dx, dy]) => {
    const here = spot(svg, from);
    let best = null, least = Infinity;
    for (const column of columns) {
      const at = spot(svg, column);
      const across = at.y === null ? 0 : at.y - here.y;
      const ahead = dx * (at.x - here.x) + dy * across;
      const beside = Math.abs(dx ? across : at.x - here.x);
      if (ahead > 0.5 && ahead + 3 * beside < least) [best, least] = [column, ahead + 3 * beside];
    }
    return best;
  };

  const steps = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

  for (const svg of document.querySelectorAll("svg.pic")) {
    const columns = [...svg.querySelectorAll(".col")];
    if (columns.length === 0) continue;
    const point = (event) => {
      const column = near(svg, columns, event.clientX, event.clientY);
      if (column) show(svg, column, event); else hide();
    };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      const mine = columns.includes(shown) ? shown : null;
      let column = null;
      if (event.key === "Escape") return hide();
      if (event.key === "Home") column = columns[0];
      else if (event.key === "End") column = columns[columns.length - 1];
      else if (steps[event.key]) column = mine ? next(svg, columns, mine, steps[event.key]) || mine : columns[0];
      else return;
      event.preventDefault();
      show(svg, column);
      live.textContent = tip.innerText;
    });
  }
  addEventListener("scroll", hide, { passive: true });

  const button = document.getElementById("theme");
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; label(); });
  button.hidden = false;
  label();
})();
