"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const wide = matchMedia("(min-width: 64rem)");
  const touch = matchMedia("(pointer: coarse)");
  let printing = false;

  // ------------------------------------------------------------------------------------- theme

  // Without local storage (private windows, some sandboxes) the button works but is not remembered.
  function remembered() {
    try { return localStorage.getItem("monro-theme"); } catch { return null; }
  }
  function remember(theme) {
    try { localStorage.setItem("monro-theme", theme); } catch { /* not remembered */ }
  }
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  const before = remembered();
  if (before === "dark" || before === "light") root.dataset.theme = before;

  function showTheme() {
    document.getElementById("theme").setAttribute("aria-pressed", isDark());
    redraw();
  }

  // ------------------------------------------------------------------------------------- plots

  // Plotly interprets some HTML and %{...} in texts; ours are plain texts.
  const plain = (text) => text.replace(/[&<>%]/g, (c) => `&#${c.charCodeAt(0)};`);

  function traces(figure, plot, axis) {
    const buttons = figure.querySelectorAll(".legend button");
    const hover =
      `<b>%{fullData.name}</b><br>${plain(plot.axes[axis] ?? "")}: %{x:,.5~g}` +
      `<br>${plain(plot.y_title)}: %{y:,.5~g}<extra></extra>`;
    return plot.curves.map((curve, i) => {
      const color = getComputedStyle(buttons[i].querySelector("svg")).color;
      const x = curve.x[axis];
      buttons[i].disabled = !x; // a curve need not have all axes
      return {
        type: "scatter",
        name: plain(curve.name),
        x: x ?? [],
        y: curve.y,
        mode: curve.mode,
        visible: Boolean(x) && buttons[i].getAttribute("aria-pressed") === "true",
        line: { color, dash: curve.dash, width: 2 },
        marker: { color, symbol: curve.symbol, size: 8 },
        hovertemplate: hover,
        hoverlabel: { bordercolor: color },
      };
    });
  }

  // With few ticks a log axis shows powers of ten only, if there are any in its range.
  const scale = (log) => (log ? { type: "log", nticks: 5 } : { type: "linear" });

  function layout(plot, axis, log, style) {
    const common = {
      automargin: true,
      color: style.color,
      gridcolor: style.borderColor,
      linecolor: style.borderColor,
      zerolinecolor: style.borderColor,
      exponentformat: "power",
      minexponent: 5,
      separatethousands: true,
    };
    return {
      // Choosing an axis resets the zoom; changing the theme keeps it.
      xaxis: {
        ...common,
        ...scale(plot.log_x),
        title: { text: plain(plot.axes[axis] ?? ""), standoff: 8 },
        uirevision: axis,
      },
      yaxis: { ...common, ...scale(log), uirevision: log },
      width: printing ? 620 : undefined,
      autosize: true,
      margin: { t: 8, r: 16, b: 40, l: 44 },
      paper_bgcolor: style.backgroundColor,
      plot_bgcolor: style.backgroundColor,
      font: { family: style.fontFamily, size: 12, color: style.color },
      hoverlabel: {
        namelength: -1,
        align: "left",
        bgcolor: style.backgroundColor,
        font: { family: style.fontFamily, color: style.color },
      },
      hovermode: "closest",
      dragmode: touch.matches ? false : "zoom", // a finger scrolls the page
      showlegend: false,
      uirevision: true,
    };
  }

  async function draw(figure) {
    figure.plot ??= JSON.parse(figure.querySelector("script").textContent);
    const area = figure.querySelector(".plot");
    const axis = Number(figure.querySelector(".axis input:checked")?.value ?? 0);
    const log = figure.querySelector(".scale input").checked;
    await Plotly.react(
      area,
      traces(figure, figure.plot, axis),
      layout(figure.plot, axis, log, getComputedStyle(area)),
      { displayModeBar: false, responsive: true },
    );
    figure.dataset.drawn = "";
  }

  const redraw = () => document.querySelectorAll("figure[data-drawn]").forEach(draw);

  function prepare(figure) {
    figure.addEventListener("change", () => draw(figure));
    figure.querySelector(".legend").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
      draw(figure);
    });
  }

  // Plots are drawn when they are about to scroll into view: a page may have a hundred.
  function drawWhenNear(figures) {
    const near = new IntersectionObserver((entries) => {
      for (const entry of entries.filter((entry) => entry.isIntersecting)) {
        near.unobserve(entry.target);
        draw(entry.target);
      }
    }, { rootMargin: "600px" });
    figures.forEach((figure) => near.observe(figure));
  }

  // For printing all plots are drawn, in the light theme and no wider than the paper.
  function print(begins) {
    printing = begins;
    const theme = root.dataset.theme;
    if (begins) root.dataset.theme = "light";
    document.querySelectorAll("figure").forEach(draw);
    if (begins) addEventListener("afterprint", () => {
      if (theme) root.dataset.theme = theme;
      else delete root.dataset.theme;
      print(false);
    }, { once: true });
  }

  // ---------------------------------------------------------------------------------- contents

  // Mark the link to the section in view, or else to its chapter.
  function follow(nav) {
    const links = [...nav.querySelectorAll("a")];
    const target = (link) => document.getElementById(link.getAttribute("href").slice(1));
    const reading = new Set();
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) reading.add(entry.target);
        else reading.delete(entry.target);
      }
      const current = links.findLast((link) => reading.has(target(link)));
      if (!current) return;
      links.forEach((link) => link.removeAttribute("aria-current"));
      current.setAttribute("aria-current", "true");
      nav.scrollTop = current.offsetTop - nav.clientHeight / 2;
    }, { rootMargin: "-20% 0px -75% 0px" });
    links.forEach((link) => observer.observe(target(link)));
  }

  document.addEventListener("DOMContentLoaded", () => {
    const contents = document.querySelector("nav details");
    const fold = () => { contents.open = wide.matches; };
    wide.addEventListener("change", fold);
    fold();
    contents.addEventListener("click", (event) => { if (event.target.closest("a")) fold(); });
    follow(document.querySelector("nav"));

    document.getElementById("theme").addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remember(root.dataset.theme);
      showTheme();
    });
    system.addEventListener("change", showTheme);
    showTheme();

    const figures = [...document.querySelectorAll("figure")];
    figures.forEach(prepare);
    drawWhenNear(figures);
    addEventListener("beforeprint", () => print(true));
  });
})();
