// The token of the set-up link stands in its fragment, which browsers send to
// nobody; it is put into the form here and taken out of the address.
const token = location.hash.slice(1);
if (token) {
  history.replaceState(null, "", location.pathname);
  document.getElementById("token").value = token;
  document.getElementById("setup").requestSubmit();
}
