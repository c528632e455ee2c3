// Package otlp decodes the spans that Dragoman writes with the types of the official protocol, which are generated
// from opentelemetry-proto. Dragoman itself has a small encoder of its own; docs/adr/0029-own-otlp-encoder.md says why.
package otlp
