"use strict";
// The page of `calibrant review`. It shows the next document only after the service has saved the decision.

let types = [];
let current = null; // The document: id, text as a list of characters, seen.
let entities = []; // What the reviewer has decided so far: start, end, type, confidence of a prediction.
let chosen = 0;
let past = []; // Earlier states of the entities, for undo.
let decided = []; // The documents that were decided on this page, the last one at the end.
let busy = false;

async function json(path, options = {}) {
  return (await ask(path, options, askForToken)).json();
}

// Also in the middle of a review: the service may have started again with another token.
function askForToken() {
  $("start").hidden = false;
  $("token-field").hidden = false;
  $("token").value = "";
  $("token").focus();
}

function progress(content) {
  $("bar").max = content.done + content.left;
  $("bar").value = content.done;
  const left = content.left ? `, ${content.left} left, with about ${content.errors_left.toFixed(1)} wrong entities` : "";
  $("progress").textContent = `${content.done} ${content.done === 1 ? "document" : "documents"} done${left}`;
}

async function begin(event) {
  event.preventDefault();
  if ($("token").value) sessionStorage.setItem("token", $("token").value);
  try {
    const about = await json("about");
    types = about.types;
    $("types").replaceChildren(...types.map(typeButton));
    progress(about);
    const open = current; // It keeps its changes.
    if (!open) await next();
    $("start").hidden = true;
    if (open) look(true);
    if (current) say("");
    sessionStorage.setItem("reviewer", $("reviewer").value);
  } catch (error) {
    say(error.message, true);
  }
}

async function next(more = {}) {
  const asked = new URLSearchParams({ reviewer: $("reviewer").value, ...more });
  const content = await json("next?" + asked);
  progress(content);
  $("decided").hidden = !decided.length;
  if (!content.document) {
    current = null;
    $("work").hidden = true;
    say(content.left ? "Other people are reviewing the remaining documents." : "All documents are reviewed. Thank you.");
    return;
  }
  current = { id: content.document.id, text: Array.from(content.document.text), seen: content.document.seen };
  entities = content.document.entities.map((one) => ({ ...one }));
  past = [];
  chosen = leastSure();
  $("work").hidden = false;
  $("start").hidden = true;
  const focused = document.activeElement; // A button keeps the focus, if it is still shown.
  const lost = !focused.offsetParent || $("text").contains(focused);
  show();
  $("text").scrollTop = 0;
  look(lost);
  say("");
}

// Return the entity to review first.
function leastSure() {
  let found = 0;
  entities.forEach((one, place) => {
    if ((one.confidence ?? 1) < (entities[found].confidence ?? 1)) found = place;
  });
  return found;
}

function textOf(one) {
  return current.text.slice(one.start, one.end).join("");
}

function described(one) {
  const sure = one.confidence === undefined ? "by hand" : `${(100 * one.confidence).toFixed(0)} %`;
  return `${textOf(one)}: ${one.type}, ${sure}`;
}

// Show a line that has a text in it, which keeps its marks of direction to itself.
function tell(line, text) {
  const [before, after] = text ? [line.slice(0, line.indexOf(text)), line.slice(line.indexOf(text) + text.length)] : [line, ""];
  $("entity").replaceChildren(before, element("bdi", text), after);
}

function show() {
  const parts = [];
  let place = 0;
  entities.forEach((one, number) => {
    parts.push(document.createTextNode(current.text.slice(place, one.start).join("")));
    const className = one.confidence === undefined ? "own" : shade(one.confidence);
    const mark = element("mark", textOf(one), className);
    mark.append(element("small", one.type));
    mark.setAttribute("role", "group"); // The role of a mark itself can have no name.
    mark.setAttribute("aria-label", described(one));
    mark.title = described(one);
    mark.addEventListener("click", () => choose(number));
    mark.addEventListener("focus", () => number !== chosen && choose(number));
    parts.push(mark);
    place = one.end;
  });
  parts.push(document.createTextNode(current.text.slice(place).join("")));
  $("text").replaceChildren(...parts);
  $("actions").classList.toggle("leftwards", stepOf("ArrowLeft", $("text")) > 0);
  showChosen();
}

// Show which entity is chosen. The text stays as it is: the mouse may be selecting in it.
function showChosen() {
  document.querySelectorAll("mark").forEach((mark, number) => mark.setAttribute("aria-current", String(number === chosen)));
  focusable(true);
  const one = entities[chosen];
  tell(one ? described(one) : "No entity.", one ? textOf(one) : "");
  types.forEach((type, number) => $("types").children[number].setAttribute("aria-pressed", String(one?.type === type)));
}

function typeButton(type, number) {
  const button = element("button", number < 9 ? `${number + 1} ${type}` : type);
  button.addEventListener("mousedown", (event) => event.preventDefault()); // Keeps the selection.
  button.addEventListener("click", () => setType(type));
  return button;
}

function choose(number) {
  chosen = Math.max(0, Math.min(entities.length - 1, number));
  showChosen();
  look(true);
}

// Bring the chosen entity into view, and the focus to it; to the text, if that has none.
function look(takeFocus) {
  const place = document.querySelector("mark[aria-current=true]") || $("text");
  if (takeFocus) place.focus({ preventScroll: true });
  place.scrollIntoView({ block: "nearest" });
}

function change(made, place) {
  const inText = $("text").contains(document.activeElement);
  past.push(entities);
  entities = made;
  chosen = Math.max(0, Math.min(entities.length - 1, place));
  current.saved = false;
  show();
  if (inText) choose(chosen); // The old mark is gone: without this, screen readers leave the text.
}

function setType(type) {
  const selected = selection();
  if (selected) return add(selected, type);
  if (!entities[chosen]) return say("Select the text of the new entity first.", true);
  replace({ ...entities[chosen], type });
}

// A changed entity is no longer what the model predicted.
function replace(made) {
  const one = { start: made.start, end: made.end, type: made.type };
  change(entities.map((other, number) => (number === chosen ? one : other)), chosen);
}

// Select the next or previous word that is in no entity: so entities are added by keys too.
function selectWord(step) {
  const free = words().filter((word) => entities.every((one) => word.end <= one.start || word.start >= one.end));
  const range = window.getSelection().rangeCount ? window.getSelection().getRangeAt(0) : null;
  const inside = range && !range.collapsed && $("text").contains(range.startContainer);
  const from = inside ? position(range.startContainer, range.startOffset) : step > 0 ? -1 : Infinity;
  const found = step > 0 ? free.find((word) => word.start > from) : free.reverse().find((word) => word.start < from);
  if (!found) return say("There is no further word.");
  const made = document.createRange();
  made.setStart(...nodeAt(found.start));
  made.setEnd(...nodeAt(found.end, true));
  window.getSelection().removeAllRanges();
  window.getSelection().addRange(made);
  tell(`Selected: ${textOf(found)}`, textOf(found));
}

// Return the text node of a place in the text, and the offset in it; `atEnd` of the node before a border.
function nodeAt(place, atEnd = false) {
  let before = 0;
  for (const child of $("text").childNodes) {
    const node = child.nodeType === Node.TEXT_NODE ? child : child.firstChild;
    const characters = Array.from(node.textContent);
    const inside = place - before;
    if (atEnd ? inside <= characters.length && inside > 0 : inside < characters.length) {
      return [node, characters.slice(0, inside).join("").length];
    }
    before += characters.length;
  }
  return [$("text"), $("text").childNodes.length];
}

// Return the selected characters without surrounding blanks, or null. A selection may begin or end outside of the text.
function selection() {
  const found = window.getSelection();
  if (!found.rangeCount || found.isCollapsed) return null;
  const range = found.getRangeAt(0);
  if (!range.intersectsNode($("text"))) return null;
  const inside = (node) => $("text").contains(node);
  let start = inside(range.startContainer) ? position(range.startContainer, range.startOffset) : 0;
  let end = inside(range.endContainer) ? position(range.endContainer, range.endOffset) : current.text.length;
  while (start < end && /\s/.test(current.text[start])) start++;
  while (end > start && /\s/.test(current.text[end - 1])) end--;
  found.removeAllRanges();
  return start < end ? { start, end } : null;
}

// Return how many characters of the text precede a place in the page, without the labels of types.
function position(node, offset) {
  const range = document.createRange();
  range.setStart($("text"), 0);
  range.setEnd(node, offset);
  const before = range.cloneContents();
  before.querySelectorAll("small").forEach((label) => label.remove());
  return Array.from(before.textContent).length;
}

function add(place, type) {
  const kept = entities.filter((one) => one.end <= place.start || one.start >= place.end);
  const made = [...kept, { ...place, type }].sort((a, b) => a.start - b.start);
  change(made, made.findIndex((one) => one.start === place.start));
}

function reject() {
  if (entities[chosen]) change(entities.filter((_, number) => number !== chosen), chosen);
}

// Move a border by one word, within the neighbours and the text.
function move(border, step) {
  const one = entities[chosen];
  if (!one) return;
  const least = chosen ? entities[chosen - 1].end : 0;
  const most = chosen + 1 < entities.length ? entities[chosen + 1].start : current.text.length;
  const places = borders(border).filter((place) =>
    border === "start" ? place >= least && place < one.end : place <= most && place > one.start,
  );
  const others = places.filter((place) => (step < 0 ? place < one[border] : place > one[border]));
  if (others.length) replace({ ...one, [border]: step < 0 ? others[others.length - 1] : others[0] });
}

function borders(border) {
  return words().map((word) => word[border]);
}

// A word is a run of letters and digits, one letter of a script without spaces, an emoji, or a single sign.
const UNSPACED =
  "[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}]";
const PICTURE = "\\p{Extended_Pictographic}\\p{M}*\\p{Emoji_Modifier}?";
const WORD = new RegExp(
  `${UNSPACED}\\p{M}*|(?:(?!${UNSPACED})[\\p{L}\\p{N}\\p{M}])+|\\p{Regional_Indicator}{2}|${PICTURE}(?:\\u200d${PICTURE})*|[^\\s\\p{L}\\p{N}\\p{M}]`,
  "gu",
);

function words() {
  const text = current.text.join("");
  const found = [];
  let unit = 0; // UTF-16 units, and below characters, before the word.
  let place = 0;
  for (const word of text.matchAll(WORD)) {
    place += Array.from(text.slice(unit, word.index)).length;
    const end = place + Array.from(word[0]).length;
    found.push({ start: place, end });
    unit = word.index + word[0].length;
    place = end;
  }
  return found;
}

function undo() {
  if (past.length) {
    entities = past.pop();
    show();
    choose(chosen);
  }
}

async function save() {
  if (!current || busy) return;
  busy = true;
  $("save").setAttribute("aria-disabled", "true"); // A button that is disabled would lose the focus.
  const plain = entities.map(({ start, end, type }) => ({ start, end, type }));
  const content = { document: current.id, seen: current.seen, entities: plain, reviewer: $("reviewer").value };
  try {
    if (!current.saved) {
      await json("decisions", asJson(content));
      decided.push(current.id);
      current.seen += 1;
      current.saved = true; // If the next document does not come, Enter asks for it again.
      past = [];
    }
    await next();
  } catch (error) {
    say(error.message, true);
  }
  busy = false;
  $("save").removeAttribute("aria-disabled");
}

async function postpone() {
  if (!current || busy) return;
  busy = true;
  await next({ later: current.id }).catch((error) => say(error.message, true));
  busy = false;
}

// Show the last decided document again: its next decision replaces the first.
async function back() {
  if (busy || !decided.length) return;
  if (current && past.length) return say("This document has changes: accept or undo them first.", true);
  busy = true;
  const again = decided.pop();
  await next({ again }).catch((error) => {
    decided.push(again);
    say(error.message, true);
  });
  busy = false;
}

const KEYS = {
  ArrowLeft: () => choose(chosen + stepOf("ArrowLeft", $("text"))),
  ArrowRight: () => choose(chosen + stepOf("ArrowRight", $("text"))),
  Enter: save,
  r: reject,
  u: undo,
  n: postpone,
  b: back,
  "[": () => move("start", -1),
  "]": () => move("start", 1),
  w: () => selectWord(1),
  W: () => selectWord(-1),
  "{": () => move("end", -1),
  "}": () => move("end", 1),
};

document.addEventListener("keydown", (event) => {
  const usable = current || (event.key === "b" && decided.length);
  if (!usable || busy || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof Element && event.target.closest("input")) return; // A name or a token is written.
  if (event.key.length === 1 && !$("keys").checked) return; // Speech to text may press single keys.
  // On a button or on "Keys", Enter presses that.
  if (event.key === "Enter" && event.target instanceof Element && event.target.closest("button, summary, a")) return;
  const type = /^[1-9]$/.test(event.key) ? types[Number(event.key) - 1] : null;
  const action = type ? () => setType(type) : KEYS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});
// Tab stops at the chosen entity only: arrow keys go to the others.
// Chromium selects nothing from the edge of an element that can have the focus: no mark can while the mouse is down.
function focusable(can) {
  document.querySelectorAll("mark").forEach((mark, number) => {
    if (can) mark.tabIndex = number === chosen ? 0 : -1;
    else mark.removeAttribute("tabindex");
  });
}

$("text").addEventListener("mousedown", () => focusable(false), true);
document.addEventListener("mouseup", () => focusable(true), true);
$("start").addEventListener("submit", begin);
$("reject").addEventListener("click", reject);
$("earlier").addEventListener("click", () => move("start", -1));
$("later").addEventListener("click", () => move("start", 1));
$("shorter").addEventListener("click", () => move("end", -1));
$("longer").addEventListener("click", () => move("end", 1));
$("undo").addEventListener("click", undo);
$("back").addEventListener("click", back);
$("skip").addEventListener("click", postpone);
$("save").addEventListener("click", save);
$("reviewer").value = sessionStorage.getItem("reviewer") || "";
window.addEventListener("beforeunload", (event) => {
  if (past.length) event.preventDefault(); // The browser asks before changes are lost.
});
