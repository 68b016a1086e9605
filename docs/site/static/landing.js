// Plays the recording of an installation, in the page's own scheme of colours.
const place = document.getElementById("recording");
AsciinemaPlayer.create(place.dataset.cast, place, {
  fit: "width",
  rows: 30,
  idleTimeLimit: 2,
  poster: "npt:0:08",
  terminalFontSize: "small",
});
