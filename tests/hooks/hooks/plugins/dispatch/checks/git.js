module.exports = (command) => (/\bgit\b.*--no-verify/.test(command) ? "no-verify: the checks are there to be run" : "");
