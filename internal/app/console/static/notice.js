// Tells the person on the desktop of questions that arrive while they look at something else, as long as the page of the
// questions is open. It asks the browser for permission only when they click.
const button = document.querySelector("[data-notice]");
const asks = (root) => new Map([...root.querySelectorAll(".asks a[href]")].map((a) => [a.getAttribute("href"), a.textContent]));
const pace = 15000;
let known = asks(document), timer;

const offer = () => { button.hidden = !("Notification" in window) || Notification.permission !== "default"; };
button.addEventListener("click", async () => { await Notification.requestPermission(); offer(); });
offer();

// The live values of a page rest while nobody sees it, so we look ourselves.
async function look() {
  try {
    const answer = await fetch(location.href);
    if (!answer.ok || !document.hidden) return;
    const now = asks(new DOMParser().parseFromString(await answer.text(), "text/html"));
    for (const [path, text] of now) {
      if (known.has(path)) continue;
      const notice = new Notification("A question waits", { body: text, tag: path });
      notice.onclick = () => { focus(); location.assign(path); };
    }
    known = now;
  } catch { /* the server is away; the next look may find it */ }
}

document.addEventListener("visibilitychange", () => {
  clearInterval(timer);
  if (!document.hidden || !("Notification" in window) || Notification.permission !== "granted") return;
  known = asks(document);
  timer = setInterval(look, pace);
});
