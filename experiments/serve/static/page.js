// Renders as one types, and searches without loading the page anew. Everything works without it.
"use strict";

const form = document.querySelector("form[data-answers]");
const field = document.getElementById("q");
const answers = document.getElementById("answers");
const preview = document.getElementById("preview");
const status = document.getElementById("status");
const requests = new Map(); // one at a time for each part of the page

async function load(target, url) {
  requests.get(target)?.abort();
  const request = new AbortController();
  requests.set(target, request);
  target.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(url, { signal: request.signal });
    if (!response.headers.get("content-type")?.startsWith("text/html")) {
      throw new Error((await response.json()).detail);
    }
    target.innerHTML = await response.text(); // escaped by the server's templates
    return response.status;
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    const told = document.createElement("p");
    told.className = "problem";
    told.setAttribute("role", "alert");
    told.textContent = `The server did not answer: ${error.message}`;
    target.replaceChildren(told);
    return 0;
  } finally {
    if (requests.get(target) === request) target.removeAttribute("aria-busy");
  }
}

const query = () => `?${new URLSearchParams(new FormData(form))}`;

async function show() {
  if (!preview) return;
  const code = await load(preview, form.dataset.preview + query());
  if (code === undefined) return;
  field.toggleAttribute("aria-invalid", false);
  if (code === 422) field.setAttribute("aria-invalid", "true");
}

async function search() {
  status.textContent = "Searching";
  const code = await load(answers, form.dataset.answers + query());
  if (code === undefined) return;
  const isTold = answers.querySelector("[role=alert]");
  status.textContent = isTold ? "" : answers.querySelector("h2")?.textContent ?? "No results";
}

// While the server starts there is no form: the page is loaded anew once that is over.
const ready = document.querySelector("[data-ready]")?.dataset.ready;

async function wait() {
  try {
    const response = await fetch(ready);
    if (response.ok || (await response.json()).type === "urn:problem:failed") {
      location.reload();
      return;
    }
  } catch {
    // It does not answer now: asked again, as below.
  }
  setTimeout(wait, 2000);
}

if (ready) setTimeout(wait, 2000);

if (form) {
  let typed;
  let shown = location.search;
  field.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(show, 120);
  });
  form.addEventListener("change", (event) => {
    if (event.target.type !== "radio") return;
    show();
    if (field.value.trim()) submit();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  function submit() {
    if (!field.value.trim()) return;
    history.pushState(null, "", form.getAttribute("action") + query());
    shown = location.search;
    search();
  }
  window.addEventListener("popstate", () => {
    // A link within the page, such as to the search field, is told here too: nothing was asked.
    if (location.search === shown) return;
    shown = location.search;
    const asked = new URLSearchParams(location.search);
    field.value = asked.get("q") ?? "";
    for (const radio of form.querySelectorAll("[type=radio]")) {
      radio.checked = radio.value === (asked.get("trees") ?? "fused");
    }
    show();
    if (field.value) search();
    else location.reload();
  });
}
