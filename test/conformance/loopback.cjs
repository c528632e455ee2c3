// This file is preloaded into the suite's Node (NODE_OPTIONS=--require). The suite's mock
// servers call listen(0) without a host, which binds every interface. A test must not be
// reachable from the network, so this file sets the host. It does so in the last synchronous
// step of listen. With a host argument, listen would bind asynchronously, but the suite reads
// server.address() right after the call.
'use strict';
const { Server } = require('node:net');

const EVERYWHERE = new Set([undefined, null, '', '::', '0.0.0.0']);
const bind = Server.prototype._listen2;

Server.prototype._listen2 = function (host, port, family, ...rest) {
  return EVERYWHERE.has(host) && Number.isInteger(port) && port >= 0
    ? bind.call(this, '127.0.0.1', port, 4, ...rest)
    : bind.call(this, host, port, family, ...rest);
};
