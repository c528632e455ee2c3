// Package dashboard loads docs/grafana.json, starts `dragoman serve --demo` and Prometheus, and draws the
// dashboard as Grafana would: it sends each query to the API of Prometheus and wants data. No Grafana is
// needed. `make dashboard` installs Debian's package of Prometheus if there is none.
package dashboard
