// Sets the colours that the reader has chosen before anything is shown. Without a choice they are those of the system.
{
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}
