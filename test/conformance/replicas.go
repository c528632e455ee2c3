//go:build unix

package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/dragoman-mcp/dragoman/test/built"
)

// stored reports whether a leg is one with replicas that need a PostgreSQL.
func (l *leg) stored() bool { return strings.HasPrefix(l.via, "replicas") }

// serveReplicas runs three replicas in front of a server, and a balancer that sends each request to the next of them. It
// returns the URL of an endpoint of the balancer.
func (s *stage) serveReplicas(ctx context.Context, onlyKeys bool, command ...string) (string, error) {
	servers, err := json.Marshal(map[string]any{"everything": map[string]any{"command": command[0], "args": command[1:]}})
	if err != nil {
		return "", err
	}
	c, err := built.StartCluster(ctx, built.ClusterOptions{Program: s.rig.dragoman, Folder: s.dir, OnlyKeys: onlyKeys, Servers: "mcpServers: " + string(servers)})
	if err != nil {
		return "", err
	}
	s.after = append(s.after, c.Close)
	return s.behind(c, "/s/everything/mcp")
}
