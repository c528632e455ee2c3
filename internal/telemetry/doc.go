// Package telemetry subscribes to events and reports them to operators. Metrics counts them
// for Prometheus. Log writes them as log records, and shows steps and handshakes to a person
// who waits.
//
// Metrics is a tap: it runs in the goroutine that publishes, misses no event and only
// counts. Gauges and the counts of servers and endpoints are read on every scrape of
// /metrics. Log has a queue and a goroutine, so a slow terminal does not delay calls. Events
// that do not fit into the queue are dropped, and their number is logged.
//
// Only package daemon imports it, and creates both.
package telemetry
