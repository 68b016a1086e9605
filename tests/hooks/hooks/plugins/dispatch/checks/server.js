module.exports = (command) => (/\bnpm run dev\b/.test(command) ? "start servers in tmux, where their log can be read" : "");
