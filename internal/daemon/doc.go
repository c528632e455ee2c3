// Package daemon is the composition root: it makes a runtime of a configuration, listens,
// handles signals, and decides in which order things start and stop. It knows all other
// packages of the bridge; no lower package knows it.
//
// Run serves one server under its own names, Serve many behind one endpoint. Connect is a
// client for the commands that need one. Record and Replay write conversations to tapes and
// play them. Each returns only when everything that it started has ended.
package daemon
