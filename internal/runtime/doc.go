// Package runtime turns a configuration into running objects: upstreams for its servers,
// endpoints for its clients, and handles between them.
//
// Messages of clients reach the gateway of the current configuration through a Handle. A
// reload creates a new generation: a new gateway with the changed servers. A call stays in the
// generation in which it began, so a reload never takes a server away from a running call.
//
// The package does not listen and does not handle signals. Package daemon does that, and
// decides in which order things start and stop.
package runtime
