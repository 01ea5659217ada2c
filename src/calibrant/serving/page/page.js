"use strict";
// The page of `calibrant serve`. It sends requests only to its own address.

const RANKS = 5; // How many classes of a text or image are shown.
let about = null;
let shown = null; // The last prediction; moving the slider shows it again.
let asked = 0; // Requests so far; only the answer to the last one is shown.
let picture = null; // The image to predict: its name, and its content as a data URL.

function percent(share) {
  const value = 100 * share;
  return (value > 99 && value < 100 ? value.toFixed(1) : value.toFixed(0)) + "\u00a0%"; // No line breaks there.
}

function askForToken() {
  $("token-form").hidden = false;
  $("token").focus();
}

async function start() {
  try {
    about = await (await ask("about", {}, askForToken)).json();
  } catch (error) {
    $("model").textContent = "";
    say(error.message, true);
    return;
  }
  $("token-form").hidden = true;
  const names = about.entities
    ? [...new Set(about.labels.map((label) => label.replace(/^[BI]-/, "")))].filter((n) => n !== "O")
    : about.labels;
  $("model").textContent = `${served()} ${names.length} ${about.entities ? "types" : "classes"}: ${few(names)}. Calibrated by ${about.calibrator}.`;
  $("report").hidden = !about.report;
  $("ask").hidden = false;
  if (about.unit === "images") {
    $("text").hidden = true;
    $("input-label").textContent = "Image";
    $("input-label").htmlFor = "file";
    $("file").accept = "image/*";
    $("file-label").textContent = "Open an image";
  }
  if (about.policy) {
    $("risk").hidden = false;
    $("slider").hidden = true;
    $("risk-value").textContent = "set by a policy";
    $("risk-meaning").textContent = about.policy;
  } else if (about.risks.length) {
    $("risk").hidden = false;
    $("slider").max = about.risks.length;
    judge();
  }
  say("");
}

// Return what this service does with its inputs.
function served() {
  if (about.entities) return "Finds entities in texts.";
  return about.masks ? "Finds the class of each pixel of images." : `Finds the class of ${about.unit}.`;
}

// Return the risk that the slider has chosen, or null to accept everything.
function chosenRisk() {
  const place = Number($("slider").value);
  return about.policy || place === 0 ? null : about.risks[about.risks.length - place];
}

function judge() {
  const risk = chosenRisk();
  if (!about.policy) {
    $("risk-value").textContent = risk ? `${Number((100 * risk.target).toFixed(2))} %` : "accept all";
    $("risk-meaning").textContent = risk ? risk.meaning : "Everything is accepted.";
    $("slider").setAttribute("aria-valuetext", $("risk-value").textContent);
  }
  if (shown && !about.masks) show();
}

function isAccepted(item) {
  const risk = chosenRisk();
  if (about.policy || !risk || item.empty) return item.accepted !== false;
  return risk.threshold !== "inf" && item.confidence >= risk.threshold;
}

function itemsOf(prediction) {
  if (!about.entities) return [prediction];
  const accepted = prediction.entities.map((entity) => ({ ...entity, accepted: true }));
  const refused = prediction.abstained.map((entity) => ({ ...entity, accepted: false }));
  return [...accepted, ...refused].sort((a, b) => a.start - b.start);
}

function show() {
  const items = itemsOf(shown);
  $("found").hidden = false;
  $("legend").hidden = !about.masks && !(about.entities && items.length);
  $("summary").textContent = summary(items);
  $("marked").replaceChildren(...(about.entities ? marked(shown.text, items) : []));
  $("list").replaceChildren(...table(items));
  if (about.unit === "images") return showPictures();
}

function table(items) {
  if (about.masks) return maskRows(shown);
  if (about.entities) return rows(items);
  return shown.empty ? [] : ranks(shown);
}

function summary(items) {
  if (about.masks) {
    return `Mean confidence ${percent(shown.confidence)}; ${percent(shown.accepted)} of the pixels are accepted.`;
  }
  if (!about.entities) {
    if (shown.empty) return "There is nothing to read.";
    return shown.labels ? describedSet(shown.labels) : `Predicted: ${described(shown)}.`;
  }
  const kept = items.filter(isAccepted);
  const errors = kept.reduce((sum, item) => sum + 1 - item.confidence, 0);
  const words = shown.review ? ` ${shown.review.length} words to check for missed entities.` : "";
  if (!items.length) return "No entity found." + words;
  return (
    `${kept.length} accepted, ${items.length - kept.length} for review. ` +
    `Errors to expect among those accepted: ${errors.toFixed(1)}.${words}`
  );
}

// A policy with a coverage accepts nothing: it promises that the true class is in this set.
function describedSet(labels) {
  if (!labels.length) return "The prediction set is empty: no class fits the policy.";
  return `The prediction set has ${labels.length} of ${about.labels.length} classes: ${few(labels)}.`;
}

function few(names) {
  return names.slice(0, 12).join(", ") + (names.length > 12 ? ", …" : "");
}

async function showPictures() {
  $("pictures").hidden = false;
  $("picture").src = picture.url;
  $("picture").alt = picture.name;
  $("picture-name").textContent = picture.name;
  for (const figure of document.querySelectorAll(".of-masks")) figure.hidden = !about.masks;
  if (about.masks) await drawMask(shown, picture.url);
}

// The service counts code points; JavaScript strings count UTF-16 units.
function marked(text, items) {
  const characters = Array.from(text);
  const parts = [];
  let place = 0;
  for (const item of items) {
    if (item.start < place) continue;
    parts.push(document.createTextNode(characters.slice(place, item.start).join("")));
    const mark = element("mark", item.text, isAccepted(item) ? shade(item.confidence) : "refused");
    mark.append(element("small", `${item.type} ${percent(item.confidence)}`));
    mark.tabIndex = parts.length > 1 ? -1 : 0; // One stop of Tab for all of them: arrow keys go from one to the next.
    mark.setAttribute("role", "group"); // The role of a mark itself can have no name.
    mark.title = described(item);
    mark.setAttribute("aria-label", described(item));
    parts.push(mark);
    place = item.end;
  }
  parts.push(document.createTextNode(characters.slice(place).join("")));
  return parts;
}

function described(item) {
  const name = about.entities ? `${item.text}: ${item.type}` : item.label;
  const others = alternatives(item);
  const verdict = isAccepted(item) ? "accepted" : "for review";
  return `${name}, ${percent(item.confidence)}, ${verdict}${others ? ". Otherwise " + others : ""}`;
}

function alternatives(item) {
  return (item.alternatives || [])
    .map((other) => `${other.label === "O" ? "no entity" : other.label} ${percent(other.confidence)}`)
    .join(", ");
}

function rows(items) {
  const head = element("tr");
  head.append(column("Entity"), column("Confidence", "number"), column("Otherwise"), column("Decision"));
  const made = items.map((item) => {
    const row = element("tr");
    row.append(element("td"));
    row.lastChild.append(element("bdi", item.text), ` (${item.type})`);
    row.append(element("td", percent(item.confidence), "number"));
    row.append(element("td", alternatives(item)));
    row.append(element("td", isAccepted(item) ? "accepted" : "for review"));
    return row;
  });
  return made.length ? [head, ...made] : [];
}

// The predicted class and the next ones, the most probable first; with a set, all of its classes.
function ranks(item) {
  const set = item.labels && new Set(item.labels);
  const head = element("tr");
  head.append(column("Class"), column("Confidence", "number"));
  if (set) head.append(column("In the set"));
  const all = [item, ...(item.alternatives || [])];
  const made = all.filter((one, place) => place < RANKS || set?.has(one.label)).map((one) => {
    const row = element("tr");
    row.append(element("td", one.label), element("td", percent(one.confidence), "number"));
    row.lastChild.classList.add(shade(one.confidence));
    if (set) row.append(element("td", set.has(one.label) ? "yes" : "no"));
    return row;
  });
  return [head, ...made];
}

// What a request asks for: the pictures of a mask, or some alternatives.
function wanted() {
  if (about.sets) return { top_k: about.labels.length };
  if (!about.masks) return { top_k: about.entities ? 3 : RANKS };
  const risk = chosenRisk();
  return risk ? { maps: true, target_risk: risk.target } : { maps: true };
}

async function predict() {
  if (!about) return;
  if (about.unit === "images" && !picture) return say("Open an image first.", true);
  const content = about.unit === "images" ? { image: picture.url } : { text: $("text").value };
  const turn = ++asked;
  $("predict").setAttribute("aria-disabled", "true"); // A button that is disabled would lose the focus.
  say("Predicting…");
  try {
    const answer = await (await ask("predict", asJson({ ...content, ...wanted() }), askForToken)).json();
    if (turn !== asked) return;
    shown = answer.predictions[0];
    await show();
    say("Done.");
  } catch (error) {
    if (turn !== asked) return;
    say(error.message, true);
  }
  $("predict").removeAttribute("aria-disabled");
}

function read(file) {
  if (!file || !about) return;
  const reader = new FileReader();
  reader.onerror = () => say("The file cannot be read.", true);
  reader.onload = () => {
    if (about.unit === "images") {
      picture = { name: file.name, url: reader.result };
      predict();
    } else if (/[\0\ufffd]/.test(reader.result)) say(`${file.name} is not a text in UTF-8.`, true);
    else $("text").value = reader.result;
  };
  if (about.unit === "images") reader.readAsDataURL(file);
  else reader.readAsText(file);
}

// A link has no header, and an address must not have the token: a form carries it.
function openReport(event) {
  const token = sessionStorage.getItem("token");
  if (!token) return; // The link works without a token.
  event.preventDefault();
  const form = element("form");
  Object.assign(form, { method: "post", action: "report", target: "_blank", rel: "noopener", hidden: true });
  const field = element("input");
  Object.assign(field, { type: "hidden", name: "token", value: token });
  form.append(field);
  document.body.append(form);
  form.submit();
  form.remove();
}

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").value);
  start();
});
$("predict").addEventListener("click", predict);
$("slider").addEventListener("input", judge);
$("slider").addEventListener("change", () => shown && about.masks && predict()); // The service judges each pixel.
$("report").addEventListener("click", openReport);
$("file").addEventListener("change", () => read($("file").files[0]));
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) predict();
});
$("marked").addEventListener("keydown", (event) => {
  const step = stepOf(event.key, $("marked"));
  const marks = [...$("marked").querySelectorAll("mark")];
  const other = step && marks[marks.indexOf(document.activeElement) + step];
  if (!other) return;
  event.preventDefault();
  document.activeElement.tabIndex = -1;
  other.tabIndex = 0;
  other.focus();
});
// A text that is dropped on the field is the browser's to insert; anything else would leave this page.
function isText(event) {
  return event.target === $("text") && !event.dataTransfer.types.includes("Files");
}
document.addEventListener("dragover", (event) => isText(event) || event.preventDefault());
document.addEventListener("drop", (event) => {
  if (isText(event)) return;
  event.preventDefault();
  read(event.dataTransfer.files[0]);
});
start();
