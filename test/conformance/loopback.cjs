// Preloaded into the suite's Node (NODE_OPTIONS=--require). Its mock servers call
// listen(0) without a host, which binds every interface; a test must not be
// reachable from the network. The host is put in at the last synchronous step of
// listen: given as an argument of listen itself it would make the binding
// asynchronous, and the suite reads server.address() right after the call.
'use strict';
const { Server } = require('node:net');

const EVERYWHERE = new Set([undefined, null, '', '::', '0.0.0.0']);
const bind = Server.prototype._listen2;

Server.prototype._listen2 = function (host, port, family, ...rest) {
  return EVERYWHERE.has(host) && Number.isInteger(port) && port >= 0
    ? bind.call(this, '127.0.0.1', port, 4, ...rest)
    : bind.call(this, host, port, family, ...rest);
};
