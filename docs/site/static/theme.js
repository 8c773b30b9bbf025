// What the reader has chosen, on all pages. A browser may refuse to keep anything: then a choice holds for its page.
function recall(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function remember(name, value) {
  try {
    if (value) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  } catch { /* it is not kept */ }
}

// Sets the colours that the reader has chosen before anything is shown. Without a choice they are those of the system.
{
  const chosen = recall("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}
