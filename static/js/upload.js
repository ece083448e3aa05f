// The upload form: choose or drop a file into the text area, fill it from an example, take that back.

const form = document.querySelector("[data-upload]");
const text = form.elements.model;
const spec = form.elements.spec;
const title = form.elements.title;
const file = form.elements.model_file;
const drop = form.querySelector("[data-drop]");
const limit = Number(form.dataset.limit);

form.classList.add("scripted");

function refuse(sentence) {
  const place = form.querySelector("[data-file-error]");
  place.hidden = sentence === "";
  place.querySelector("span").textContent = sentence;
}

// Put a file into its text area, so that it can be read and changed before it is sent.
async function take(chosen) {
  const isSpec = chosen.name.endsWith(".toml");
  if (chosen.size > limit) {
    refuse(`${chosen.name} has ${chosen.size.toLocaleString("en")} bytes; ${limit.toLocaleString("en")} are allowed. Is it the model's source?`);
    return;
  }
  try {
    const content = new TextDecoder("utf-8", { fatal: true }).decode(await chosen.arrayBuffer());
    refuse("");
    keep();
    if (isSpec) {
      spec.value = content;
      form.querySelector("[data-spec]").open = true;
    } else {
      text.value = content;
      text.scrollTop = 0;
      leaveExample();
    }
  } catch {
    refuse(`${chosen.name} is not UTF-8 text: choose the model's source file.`);
  }
}

file.addEventListener("change", async () => {
  for (const chosen of file.files) {
    await take(chosen);
  }
  file.value = "";
});

for (const kind of ["dragenter", "dragover"]) {
  drop.addEventListener(kind, (event) => {
    if (event.dataTransfer.types.includes("Files")) {
      event.preventDefault();
      drop.classList.add("dropping");
    }
  });
}

drop.addEventListener("dragleave", (event) => {
  if (!drop.contains(event.relatedTarget)) {
    drop.classList.remove("dropping");
  }
});

drop.addEventListener("drop", async (event) => {
  if (event.dataTransfer.files.length > 0) {
    event.preventDefault();
    drop.classList.remove("dropping");
    for (const chosen of event.dataTransfer.files) {
      await take(chosen);
    }
  }
});

// Examples, and the text that an example or file replaced.
const box = form.querySelector("[data-examples]");
const undo = form.querySelector("[data-undo]");
let replaced = null;

function keep() {
  if (text.value.trim() && !examples.some((example) => example.model === text.value)) {
    replaced = { model: text.value, spec: spec.value, title: title.value };
    if (undo) {
      undo.hidden = false;
    }
  }
}

function fill(values) {
  text.value = values.model;
  spec.value = values.spec;
  title.value = values.title;
  form.querySelector("[data-spec]").open = values.spec.trim() !== "";
  text.scrollTop = 0;
  refuse("");
}

const examples = box ? JSON.parse(document.getElementById("example-data").textContent) : [];
const buttons = box ? [...box.querySelectorAll("[data-example]")] : [];

// The example that the text comes from, also when somebody has changed it here and there.
let current = examples.find((example) => example.model === text.value) ?? null;

function press(chosen) {
  current = chosen;
  buttons.forEach((button) =>
    button.setAttribute("aria-pressed", chosen !== null && examples[Number(button.dataset.example)] === chosen),
  );
}

function lines(source) {
  return new Set(source.split("\n").map((line) => line.trim()).filter(Boolean));
}

// Once most of an example's lines are gone it is another model: what the example has put into the
// other fields goes with it, unless somebody has changed it.
function leaveExample() {
  if (current === null) {
    return;
  }
  const left = lines(text.value);
  const own = [...lines(current.model)];
  if (2 * own.filter((line) => left.has(line)).length >= own.length) {
    return;
  }
  for (const [field, value] of [[spec, current.spec], [title, current.title]]) {
    if (field.value === value) {
      field.value = "";
    }
  }
  press(null);
}

text.addEventListener("input", leaveExample);

if (box) {
  box.hidden = false;
  for (const button of buttons) {
    button.addEventListener("click", () => {
      keep();
      fill(examples[Number(button.dataset.example)]);
      press(examples[Number(button.dataset.example)]);
    });
  }
  undo.querySelector("button").addEventListener("click", () => {
    fill(replaced);
    undo.hidden = true;
    press(null);
    text.focus();
  });
  press(current);
}

// One press, one upload. What is too large would be refused without being shown again.
form.addEventListener("submit", (event) => {
  const size = new Blob([text.value]).size;
  if (size > limit) {
    event.preventDefault();
    refuse(`The text has ${size.toLocaleString("en")} bytes; ${limit.toLocaleString("en")} are allowed: build large constants in the code instead of writing them down.`);
    text.focus();
    return;
  }
  const button = form.querySelector("button[type=submit]");
  window.setTimeout(() => (button.disabled = true));
});
window.addEventListener("pageshow", () => (form.querySelector("button[type=submit]").disabled = false));

// After a refusal the field that it is about comes into view, also on a small screen.
form.querySelector('[aria-invalid="true"]:not([type="file"])')?.focus();
