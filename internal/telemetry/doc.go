// Package telemetry subscribes to events and shows them to operators: Metrics counts them
// for Prometheus, Log writes them as log records and shows steps and handshakes to a person
// who waits.
//
// Metrics is a tap: it runs in the goroutine that publishes, misses nothing and only
// counts. Gauges and the counts of servers and endpoints are read when /metrics is
// scraped. Log is a queue with a goroutine of its own, so a slow terminal holds up no call;
// what the queue had no room for is counted and logged.
//
// No other room imports it but daemon, which makes both.
package telemetry
