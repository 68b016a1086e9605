// Read by Node.js before the script and all else that it is to load: waits for the run's variables and for the script to be in its place.
'use strict';
const { isMainThread } = require('worker_threads');
delete require.cache[__filename];
// A worker of the script reads this file, too.
if (isMainThread) {
  const fs = require('fs');
  // What most hooks use, and stdin. No file can shadow these.
  const known = ['child_process', 'crypto', 'module', 'net', 'path', 'readline', 'stream', 'string_decoder', 'tty', 'url', 'util'];
  for (const name of known) require(name);
  const read = (size) => {
    const data = Buffer.alloc(size);
    for (let at = 0; at < size; ) {
      const count = fs.readSync(0, data, at, size - at, null);
      if (count === 0) process.reallyExit(125);
      at += count;
    }
    return data;
  };
  fs.writeSync(1, '\x06');
  const [directory, ...lines] = read(parseInt(read(16), 16)).toString().split('\0');
  if (directory) process.chdir(directory);
  // All of them anew, so that their order is that of any other start.
  for (const name of Object.keys(process.env)) delete process.env[name];
  for (const line of lines) {
    const at = line.indexOf('=');
    if (at > 0) process.env[line.slice(0, at)] = line.slice(at + 1);
  }
}
