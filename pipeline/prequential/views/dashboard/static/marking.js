// People's marks of an incident: the newest one, how many marked incidents are real, and a form for another one.

import { h, replace } from "./dom.js";
import { short } from "./format.js";

// The form stays as messages come: what somebody types in it is kept.
export function createMarking() {
  const state = h("p");
  const answer = h("p", { class: "quiet", role: "status" });
  const mark = h("select", { name: "mark", "aria-label": "mark" });
  const by = h("input", { name: "by", placeholder: "your name", autocomplete: "username", maxlength: 100, "aria-label": "your name" });
  const note = h("input", { name: "note", placeholder: "why (optional)", autocomplete: "off", "aria-label": "note" });
  const form = h("form", { class: "marking" }, mark, by, note, h("button", { type: "submit" }, "Mark"));
  const element = h("section", { class: "card", hidden: true }, h("h2", {}, "Marks"), state, form, answer);
  let data = null;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    answer.textContent = "writing …";
    answer.textContent = await send(data, { incident: data.id, mark: mark.value, by: by.value, note: note.value });
  });
  return {
    element,
    take(next) {
      data = next;
      element.hidden = !next.mark_form && !next.mark;
      form.hidden = !next.mark_form;
      if (element.hidden) return;
      replace(state, sentence(next));
      if (next.mark_form && !mark.options.length) {
        note.maxLength = next.mark_form.most_note;
        for (const [name, meaning] of Object.entries(next.mark_form.marks)) mark.append(h("option", { value: name }, `${name}: ${meaning}`));
      }
    },
  };
}

function sentence(data) {
  const [real, marked] = data.marked;
  const own = data.mark ? `${data.mark.mark[0].toUpperCase()}${data.mark.mark.slice(1)}, says ${data.mark.by}, ${short(data.mark.ts, data.board.now)}${data.mark.note ? `: ${data.mark.note}` : ""}. ` : "Nobody has marked this incident. ";
  return marked ? `${own}${real} of ${marked} marked real.` : own;
}

// Writes a mark; returns what became of it.
async function send(data, mark) {
  try {
    const response = await fetch("/api/marks", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Mark-Secret": data.mark_form.secret },
      body: JSON.stringify(mark),
    });
    return response.ok ? "Marked." : (await response.json()).error;
  } catch {
    return "The server can't be reached: nothing was marked.";
  }
}
