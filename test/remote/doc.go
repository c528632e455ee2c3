// Package remote reaches `dragoman serve` as another machine would: through nginx, Caddy and HAProxy, and
// through `ssh -L`. The configurations of the proxies are the blocks of docs/deployment.md, unchanged.
//
// Each test runs in namespaces of its own, so that the ports, names and paths of the documents can be
// used: port 443, mcp.example.com, and files below /etc. It must therefore run as root. `make remote`
// unpacks Debian's packages of programs that aren't installed.
package remote
