// Sphinx's own scores, but decisions and the changelog come behind what tells how something is used.
var Scorer = {
  score: ([docname, , , , score]) => (/^(docs\/adr\/|CHANGELOG)/.test(docname) ? score - 100 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
