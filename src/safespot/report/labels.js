"use strict";
// Of texts that would lie on each other the first is seen, and a certificate before anything else.
function keepApart(figure) {
  const texts = [...figure.querySelectorAll(".role-mark.mark-text text")], seen = [];
  texts.sort((one, other) => (other.textContent === "✓") - (one.textContent === "✓"));
  for (const text of texts) {
    const box = text.getBoundingClientRect(), apart = (o) => box.right <= o.left || o.right <= box.left || box.bottom <= o.top || o.bottom <= box.top;
    const clear = text.getAttribute("opacity") === "0" || seen.every(apart);
    text.style.visibility = clear ? "" : "hidden";
    if (clear && text.getAttribute("opacity") !== "0") seen.push(box);
  }
}
