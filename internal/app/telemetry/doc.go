// Package telemetry subscribes to events and reports them to operators. Metrics counts them for
// Prometheus. Log writes them as log records. Log also shows a waiting user how a server starts.
// CallLog writes a log record for each call.
//
// Metrics subscribes as a tap: it runs in the goroutine that publishes an event, and only counts.
// The state of servers, endpoints and memory is read on each scrape of /metrics. Log and CallLog
// each have a queue and a goroutine, so a slow terminal does not delay calls. They drop events that
// do not fit into the queue, and log the number of dropped events.
//
// Only package daemon imports this package.
package telemetry
