/* What makes elements of the page. */
"use strict";

// An element with attributes, of which those that start with "on" are functions, and children.
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element[name] = value;
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter(child => child != null));
  return element;
}

const byId = id => document.getElementById(id);
const button = (text, onclick, attributes = {}) => h("button", { type: "button", onclick, ...attributes }, text);
const swatch = colour => h("span", { class: "swatch", style: `--colour: var(--${colour})`, "aria-hidden": "true" });
const shownLoss = loss => Number.isFinite(loss) ? loss.toFixed(3) : "–";

function save(name, content) {
  const address = URL.createObjectURL(new Blob([content]));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

async function copy(text, clicked) {
  const said = clicked.textContent;
  await (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(() => { clicked.textContent = "copied"; }, () => prompt("Copy:", text));
  setTimeout(() => { clicked.textContent = said; }, 1500);
}
