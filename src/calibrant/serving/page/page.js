"use strict";
// The page of `calibrant serve`. It sends requests only to its own address.

let about = null;
let shown = null; // The last prediction; moving the slider shows it again.
let picture = null; // The image to predict, in base64.

function percent(share) {
  const value = 100 * share;
  return (value > 99 && value < 100 ? value.toFixed(1) : value.toFixed(0)) + " %";
}

function askForToken() {
  $("token-form").hidden = false;
  $("token").focus();
}

async function start() {
  try {
    about = await (await ask("about", {}, askForToken)).json();
  } catch (error) {
    say(error.message, true);
    return;
  }
  $("token-form").hidden = true;
  const kind = about.entities ? "entities" : about.masks ? "masks" : "classes";
  const names = about.entities
    ? [...new Set(about.labels.map((label) => label.replace(/^[BI]-/, "")))].filter((n) => n !== "O")
    : about.labels;
  const few = names.slice(0, 12).join(", ") + (names.length > 12 ? ", …" : "");
  $("model").textContent = `${names.length} ${kind === "entities" ? "types" : "classes"}: ${few}. Calibrated by ${about.calibrator}.`;
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
  if (shown) show();
}

function isAccepted(item) {
  const risk = chosenRisk();
  if (about.policy || !risk) return item.accepted !== false; // Sets of classes have no such field.
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
  const kept = items.filter(isAccepted);
  const errors = kept.reduce((sum, item) => sum + 1 - item.confidence, 0);
  $("found").hidden = false;
  $("legend").hidden = !about.entities;
  $("summary").textContent = about.masks
    ? `Mean confidence ${percent(shown.confidence)}.`
    : `${kept.length} accepted, ${items.length - kept.length} for review. ` +
      `Errors to expect among those accepted: ${errors.toFixed(1)}.`;
  $("marked").replaceChildren(...(about.entities ? marked(shown.text, items) : []));
  $("list").replaceChildren(...(about.masks ? maskRows() : rows(items)));
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
    mark.tabIndex = 0;
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
  const columns = [about.entities ? "Entity" : "Class", "Confidence", "Otherwise", ""];
  for (const name of columns) head.append(element("th", name));
  const made = items.map((item) => {
    const row = element("tr");
    row.append(element("td", about.entities ? `${item.text} (${item.type})` : item.label));
    row.append(element("td", percent(item.confidence), "number"));
    row.append(element("td", alternatives(item)));
    row.append(element("td", isAccepted(item) ? "accepted" : "for review"));
    return row;
  });
  return made.length ? [head, ...made] : [element("caption", "No entity found.")];
}

function maskRows() {
  const head = element("tr");
  for (const name of ["Class", "Pixels", "Confidence"]) head.append(element("th", name));
  const made = Object.entries(shown.classes).map(([name, numbers]) => {
    const row = element("tr");
    row.append(element("td", name), element("td", String(numbers.pixels), "number"));
    row.append(element("td", percent(numbers.confidence), "number"));
    return row;
  });
  return [head, ...made];
}

async function predict() {
  const content = about.unit === "images" ? { image: picture } : { text: $("text").value };
  if (about.unit === "images" && !picture) return say("Open an image first.", true);
  $("predict").disabled = true;
  say("Predicting…");
  try {
    const asked = asJson({ ...content, ...(about.masks ? {} : { top_k: 3 }) });
    const answer = await (await ask("predict", asked, askForToken)).json();
    shown = answer.predictions[0];
    show();
    say("Done.");
  } catch (error) {
    say(error.message, true);
  }
  $("predict").disabled = false;
}

function read(file) {
  if (!file) return;
  const reader = new FileReader();
  reader.onerror = () => say("The file cannot be read.", true);
  reader.onload = () => {
    if (about.unit === "images") {
      picture = reader.result;
      predict();
    } else $("text").value = reader.result;
  };
  if (about.unit === "images") reader.readAsDataURL(file);
  else reader.readAsText(file);
}

async function openReport(event) {
  if (!sessionStorage.getItem("token")) return; // The link works without a token.
  event.preventDefault();
  try {
    const report = await (await ask("report", {}, askForToken)).blob();
    window.open(URL.createObjectURL(report), "_blank", "noopener");
  } catch (error) {
    say(error.message, true);
  }
}

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").value);
  start();
});
$("predict").addEventListener("click", predict);
$("slider").addEventListener("input", judge);
$("report").addEventListener("click", openReport);
$("file").addEventListener("change", () => read($("file").files[0]));
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) predict();
});
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  read(event.dataTransfer.files[0]);
});
start();
