"use strict";
// Functions for both pages. They write content from the service as text, never as HTML.

const $ = (id) => document.getElementById(id);

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// The head of a column, which screen readers announce with its cells.
function column(name, className) {
  const made = element("th", name, className);
  made.scope = "col";
  return made;
}

function say(message, isError = false) {
  $("status").textContent = message;
  $("status").className = isError ? "error" : "";
}

// How far an arrow key goes through a text: where it is written from right to left, the left arrow goes on.
function stepOf(key, text) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[key] || 0;
  return getComputedStyle(text).direction === "rtl" ? -step : step;
}

// The colour of a confidence: five steps from .5 to 1.
function shade(confidence) {
  return "s" + Math.max(0, Math.min(4, Math.floor(10 * confidence) - 5));
}

// Send a request to the service of this page; call `onRefused` if the token is missing or wrong.
async function ask(path, options, onRefused) {
  const token = sessionStorage.getItem("token");
  const headers = { ...((options || {}).headers || {}) };
  if (token) headers.Authorization = "Bearer " + token;
  const answer = await fetch(path, { ...options, headers }).catch(() => {
    throw new Error("The service does not answer: is it still running? This page keeps what it shows; try again.");
  });
  if (answer.status === 401) {
    sessionStorage.removeItem("token");
    onRefused();
    throw new Error(token ? "The service refuses this token: type the right one." : "This service needs a token.");
  }
  if (!answer.ok) {
    const content = await answer.json().catch(() => ({}));
    throw new Error(content.error || "The service answered " + answer.status + ".");
  }
  return answer;
}

function asJson(content) {
  const headers = { "Content-Type": "application/json" };
  return { method: "POST", headers, body: JSON.stringify(content) };
}
