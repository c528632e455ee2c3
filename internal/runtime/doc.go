// Package runtime turns a configuration into what serves clients: upstreams for its
// servers, endpoints for its clients, and the handles between them.
//
// Conversations with clients reach the gateway of the current configuration through a
// Handle. A call stays in the generation in which it began, so a reload never takes a
// server away from a call.
//
// It does not listen and does not handle signals: daemon does, and decides in which order
// things start and stop.
package runtime
