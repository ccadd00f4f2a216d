// The set-up link carries its token behind the '#', which browsers send to no
// server. This script takes it from there, forgets it, and trades it for a
// session. Without a script the token can be pasted into the form.
const note = document.getElementById("note");
const token = location.hash.slice(1);

if (token) {
  history.replaceState(null, "", "/setup");
  note.textContent = "Signing in…";
  try {
    const answer = await fetch("/ui/setup", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ token }),
    });
    if (answer.ok) {
      location.replace("/");
    } else {
      const { error } = await answer.json();
      note.textContent = "Not signed in: " + error.message;
    }
  } catch {
    note.textContent = "Not signed in: the server could not be reached.";
  }
}
