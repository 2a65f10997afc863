"use strict";
// The page is complete without this script, which adds tooltips, selection across linked plots, and sorting.
(() => {
  const tooltip = document.getElementById("tooltip");
  const bar = document.getElementById("bar");
  const selected = document.getElementById("selected");
  let shown = null; // the item whose tooltip is shown

  // Marks of figures: the first line of their label is what they belong to. Lines get a wider twin to point at.
  for (const item of document.querySelectorAll(".plot [aria-label]")) {
    item.dataset.tip = item.getAttribute("aria-label");
    item.dataset.setting = item.dataset.tip.split("\n")[0];
    if (item.getAttribute("role") === "button") {
      item.classList.add("point");
      item.setAttribute("aria-pressed", "false");
      item.tabIndex = 0;
    }
    if (item.getAttribute("aria-roledescription") === "line mark") {
      const twin = item.cloneNode();
      twin.classList.add("hit");
      twin.removeAttribute("aria-label");
      item.before(twin);
    }
  }

  // Tooltips: a line of text for each line of data-tip, never markup.
  function showTip(item, x, y) {
    const lines = item.dataset.tip.split("\n").map((text) => {
      const line = document.createElement("div");
      line.textContent = text;
      return line;
    });
    tooltip.replaceChildren(...lines);
    tooltip.hidden = false;
    shown = item;
    const left = Math.min(x + 14, document.documentElement.clientWidth - tooltip.offsetWidth - 8);
    const below = y + 16 + tooltip.offsetHeight < document.documentElement.clientHeight;
    tooltip.style.left = `${Math.max(8, left)}px`;
    tooltip.style.top = `${below ? y + 16 : Math.max(8, y - tooltip.offsetHeight - 12)}px`;
  }

  function hideTip() {
    tooltip.hidden = true;
    shown = null;
  }

  function showTipBeside(item) {
    const box = item.getBoundingClientRect();
    showTip(item, box.left + box.width / 2, box.bottom);
  }

  function owner(event, selector) {
    return event.target instanceof Element ? event.target.closest(selector) : null;
  }

  document.addEventListener("pointermove", (event) => {
    const over = event.pointerType === "mouse" ? owner(event, "[data-tip]") : null;
    if (over) showTip(over, event.clientX, event.clientY);
    else if (event.pointerType === "mouse") hideTip();
  });
  document.addEventListener("focusin", (event) => {
    const over = owner(event, "[data-tip]");
    if (over && over.matches(":focus-visible")) showTipBeside(over);
  });
  document.addEventListener("focusout", hideTip);
  document.addEventListener("scroll", () => shown && showTipBeside(shown), { passive: true });

  // Selection: a setting, arm or line has the same data-setting in all linked figures, chips and rows.
  function clear() {
    for (const linked of document.querySelectorAll(".selecting")) {
      linked.classList.remove("selecting");
      for (const item of linked.querySelectorAll(".picked")) item.classList.remove("picked");
      for (const item of linked.querySelectorAll('[aria-pressed="true"]')) item.setAttribute("aria-pressed", "false");
      delete linked.dataset.selected;
    }
    bar.hidden = true;
    hideTip();
  }

  function select(item) {
    const linked = item.closest(".linked");
    const key = item.dataset.setting;
    const again = linked.dataset.selected === key;
    clear();
    if (again) return;
    linked.classList.add("selecting");
    linked.dataset.selected = key;
    for (const same of linked.querySelectorAll("[data-setting]")) {
      if (same.dataset.setting !== key) continue;
      same.classList.add("picked");
      if (same.hasAttribute("aria-pressed")) same.setAttribute("aria-pressed", "true");
    }
    const chip = linked.querySelector(".chip.picked"); // plots and chips may show only some settings
    selected.textContent = chip ? chip.dataset.tip.split("\n").slice(0, 4).join(" · ") : item.closest("tr").cells[0].textContent;
    bar.hidden = false;
  }

  document.addEventListener("click", (event) => {
    const item = owner(event, ".linked [data-setting]");
    if (item) select(item);
  });
  document.getElementById("clear").addEventListener("click", clear);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") clear();
    const point = owner(event, ".point");
    if (point && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault(); // a space would scroll the page
      select(point);
    }
  });

  // Sorting: data-sort has the exact number or text of a cell; NaN is last in both directions.
  function compare(a, b, direction) {
    const [x, y] = [a, b].map(Number);
    if (!Number.isNaN(x) && !Number.isNaN(y)) return direction * (x - y);
    if (a === "nan" || b === "nan") return (a === "nan") - (b === "nan");
    return direction * a.localeCompare(b);
  }

  function sort(table, column, head) {
    const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
    const body = table.tBodies[0];
    const key = (row) => row.cells[column].dataset.sort;
    body.append(...[...body.rows].sort((a, b) => compare(key(a), key(b), direction)));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sort(table, column, head));
      head.replaceChildren(button);
    });
  }
})();
