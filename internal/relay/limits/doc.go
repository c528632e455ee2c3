// Package limits bounds how much clients send: calls per second, calls in flight, and bytes per minute, of each key,
// person, project and server. A [Limit] is what a configuration says. A [Table] has what was used of it, and outlives
// configurations, so a change of the numbers gives nobody a full bucket.
//
// The package decides about numbers alone. Package runtime says which requests count and whose they are; it's the
// step between authorise and confirm.
package limits
