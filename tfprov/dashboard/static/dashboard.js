"use strict";
// Each message is an object: the id of a section, and its new content, in which the server has escaped all texts.
const stream = document.body.dataset.stream;
// While a pointer or a key is down nothing is replaced: a link that is another one when it goes up is not clicked.
const held = new Map();
let down = false;
for (const event of ["pointerdown", "keydown"]) addEventListener(event, () => { down = true; }, true);
for (const event of ["pointerup", "pointercancel", "keyup"]) addEventListener(event, () => setTimeout(release), true);
// Of a scroll bar that is let go, browsers report nothing before the pointer moves.
addEventListener("pointermove", (event) => { if (down && !event.buttons) release(); }, true);
addEventListener("blur", release);

function release() {  // after the click, which comes with the end of a press
  down = false;
  for (const [id, content] of held) replace(document.getElementById(id), content);
  held.clear();
}

if (stream) {
  const state = document.getElementById("connection");
  const source = new EventSource(stream);
  source.onopen = () => { state.textContent = "live"; };
  source.onerror = () => { state.textContent = "not connected; trying again"; };
  source.onmessage = (message) => {
    for (const [id, content] of Object.entries(JSON.parse(message.data))) held.set(id, content);
    if (!down) release();
  };
}

function name(element) {
  return element.id || element.getAttribute("href") || element.getAttribute("aria-label");
}

function replace(section, content) {
  if (!section) return;
  const focused = section.contains(document.activeElement) ? document.activeElement : null;
  const key = focused && name(focused);
  const checked = [...section.querySelectorAll("input:checked")].map((box) => box.value);
  const log = section.querySelector("pre.log");
  const follows = !log || log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  const top = log ? log.scrollTop : 0;
  const option = section.tagName === "SELECT" ? section.selectedOptions[0] : undefined;
  const chosen = option && !option.defaultSelected ? option.value : "";  // by the user, and not yet shown
  section.innerHTML = content;
  if (chosen) section.value = chosen;
  for (const box of section.querySelectorAll("input[type=checkbox]")) box.checked = checked.includes(box.value);
  const next = section.querySelector("pre.log");
  if (next) next.scrollTop = follows ? next.scrollHeight : top;
  if (key) {
    const again = [...section.querySelectorAll("a, input, button, pre, [tabindex]")].find((each) => name(each) === key);
    if (again) again.focus();
  }
}
for (const log of document.querySelectorAll("pre.log")) log.scrollTop = log.scrollHeight;
