// Package telemetry subscribes to events and reports them to operators. Metrics counts them for
// Prometheus. Log writes them as log records. Log also shows steps and handshakes to a waiting
// user.
//
// Metrics is a tap. It runs in the goroutine that publishes, gets every event, and only
// counts. Gauges and the counts of servers and endpoints are read on every scrape of /metrics.
// Log has a queue and a goroutine, so a slow terminal does not delay calls. Events that do not
// fit into the queue are dropped, and their number is logged.
//
// Only package daemon imports this package and creates a Metrics and a Log.
package telemetry
